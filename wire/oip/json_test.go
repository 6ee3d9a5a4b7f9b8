package oip

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
)

// bodies are JSON parts as clients and servers write them, and nearly so.
var bodies = []string{
	`{"id":"a","inputs":[{"name":"x","shape":[1,-1],"datatype":"FP32","parameters":{"binary_data_size":4}}],"outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],"parameters":{"timeout":5,"binary_data_output":false}}`,
	` { "inputs" : [ { "name" : " x\\\" " , "shape" : [ ] , "datatype" : "UINT8" } ] , "outputs" : [ ] , "parameters" : { } } `,
	`{"inputs":[{"name":"x","shape":[01],"datatype":"FP32","data":[1]}]}`,
	`{"inputs":[{"name":"x","shape":[1.0,1e3,-0],"datatype":"FP32"}],"inputs":[]}`,
	`{"Inputs":null,"parameters":{"timeout":"7","priority":1},"id":"é\u00e9"}`,
	`{"model_name":"p","model_version":"1","id":"3","parameters":{"generation":1,"elapsed_ns":12,"stages":"[{\"module\":\"a\\\\b\"}]"},"outputs":[{"name":"y","shape":[2],"datatype":"INT64","parameters":{"binary_data_size":16}}]}`,
	`[{"module":"m","items":1,"batch":2,"critical":true,"queue_ns":3,"wait_ns":4,"compute_ns":5,"transfer_ns":6},{}]`,
	`{"inputs":[{"name":"x","shape":[1,2],"datatype":"A"}],"inputs":[{"shape":[3]}]}`,
	`{"inputs":[{"name":"x","shape":[1,2],"shape":[3],"shape":null}]}`,
	`{"parameters":{"timeout":1},"parameters":{"binary_data_output":true}}`,
	`{"parameters":{"timeout":1},"parameters":null}`,
	`{"parameters":{"timeout":1,"timeout":null}}`,
	"{\"input\u017f\":[{\"name\":\"x\"}],\"\u212ad\":3}",
	`{"ID":"a","Id":"b","i_d":"c","id":null}`,
	`{"id":"\ud800","inputs":null}`, "{\"id\":\"\xff\"}",
	`{"outputs":[{"name":"y","parameters":{"binary_data":null}}]}`,
	`{"outputs":[{"name":"y","parameters":{"binary_data":true}}],"outputs":[{"name":"z","parameters":{"binary_data":false}},{}]}`,
	`{"id":1}`, `{"parameters":{"binary_data_output":"true"}}`, `null`, `{"inputs":[null]}`, `{"inputs":{}}`,
	`[{"module":"m","items":1},{"batch":1}]`, `[null]`, `[{"items":1.5}]`, `[{"items":1e2}]`, `[{"items":-0}]`, `[{"queue_ns":9223372036854775808}]`,
	`{"inputs":[{"shape":["1"]}]}`, `{"inputs":[{"data":null,"data":[1]}]}`, `{"inputs":[{"data":"x"}]}`,
	`{"x":` + "\x01" + `}`, "\ufeff{}", `{"parameters":{"timeout":"a"}}`,
	``, `{`, `{}`, `[]`, `{}x`, `{"id":"\x"}`, `{"id":"a`, `{"id":1,}`,
}

// requireTwins holds what is read to encoding/json: to what that reads, and to what it refuses.
func requireTwins(t require.TestingT, raw []byte) {
	requireTwin[requestJSON](t, raw)
	requireTwin[responseJSON](t, raw)
	requireTwin[[]stageJSON](t, raw)
}

func requireTwin[T any](t require.TestingT, raw []byte) {
	var got, want T
	err := read(raw, &got)
	require.Equal(t, json.Unmarshal(raw, &want) == nil, err == nil, "%s: %v", raw, err)
	if err == nil {
		require.Equal(t, want, got, "%s", raw)
	}
}

func TestBodiesAreReadAsEncodingJSONReads(t *testing.T) {
	for _, raw := range bodies {
		requireTwins(t, []byte(raw))
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(rapid.SampledFrom(bodies).Draw(t, "body"))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			from := rapid.IntRange(0, len(raw)).Draw(t, "from")
			to := rapid.IntRange(from, min(from+3, len(raw))).Draw(t, "to")
			piece := rapid.SampledFrom([]string{"", " ", "\"", "\\", "0", "-", "1.5", "e", ",", ":", "[", "]", "{", "}", "null", "true", "id", "é", "\x00"}).Draw(t, "piece")
			raw = append(append(append([]byte{}, raw[:from]...), piece...), raw[to:]...)
		}
		requireTwins(t, raw)
	})
}

// TestTimeouts are whole numbers of microseconds, and may come as text.
func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{`5`: 5 * time.Microsecond, `"7"`: 7 * time.Microsecond, `null`: 0, `0`: 0, `""`: -1, `"a"`: -1, `1.5`: -1, `1e3`: -1, `-1`: -1, `true`: -1, `[]`: -1} {
		c, err := DecodeRequest([]byte(`{"inputs":[],"parameters":{"timeout":`+text+`}}`), -1)
		if want < 0 {
			require.ErrorIs(t, err, wire.ErrInvalid, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, c.Timeout, text)
	}
}

func FuzzBodies(f *testing.F) {
	for _, raw := range bodies {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		requireTwins(t, raw)
	})
}

// TestWhatIsWrittenIsAsEncodingJSONWrites compares every byte.
func TestWhatIsWrittenIsAsEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("az09\"\\<>&\n\x00\x7fé\u2028 "))))
		tensors := named(t)
		for i := range tensors {
			tensors[i].Name = text.Draw(t, "name")
		}
		binary := rapid.Bool().Draw(t, "binary") || unreadableAny(tensors)
		list := make([]tensorJSON, len(tensors))
		for i := range tensors {
			x := &tensors[i]
			list[i] = tensorJSON{Name: x.Name, Shape: append([]int64{}, x.Shape...), Datatype: x.Datatype}
			if size := int64(len(x.Data)); binary {
				list[i].Parameters.BinarySize = &size
				continue
			}
			list[i].Data, _ = appendData(nil, &x.Tensor)
		}

		q := &wire.InferRequest{ID: text.Draw(t, "id"), Inputs: tensors, Outputs: rapid.SliceOfN(text, 0, 3).Draw(t, "outputs")}
		us := rapid.IntRange(0, 1e6).Draw(t, "us")
		ask := requestJSON{ID: q.ID, Inputs: list, Parameters: requestParameters{BinaryOutput: binary}}
		if us > 0 {
			ask.Parameters.Timeout = strconv.AppendInt(nil, int64(us), 10)
		}
		for _, name := range q.Outputs {
			ask.Outputs = append(ask.Outputs, wantedJSON{Name: name})
		}
		body, header, err := encodeRequest(q, time.Duration(us)*time.Microsecond, binary, new(Places))
		require.NoError(t, err)
		if header < 0 {
			header = len(body)
		}
		requireJSON(t, ask, body[:header])

		r := &wire.InferResponse{ID: q.ID, Pipeline: text.Draw(t, "pipeline"), Generation: us % 3, Elapsed: time.Duration(us), Outputs: tensors, Fresh: us%2 == 1}
		var stages []stageJSON
		for range rapid.IntRange(0, 3).Draw(t, "stages") {
			s := stageJSON{Module: text.Draw(t, "module"), Items: us, Batch: 2, Critical: us%2 == 0, Queue: 3, Wait: 4, Compute: 5, Transfer: -6}
			stages = append(stages, s)
			r.Stages = append(r.Stages, wire.Stage{Module: s.Module, Items: us, Batch: 2, Critical: s.Critical, Queue: 3, Wait: 4, Compute: 5, Transfer: -6})
		}
		answer := responseJSON{Model: r.Pipeline, Version: strconv.Itoa(r.Generation), ID: r.ID, Outputs: list}
		answer.Parameters = responseParameters{Generation: r.Generation, Elapsed: int64(us), Fresh: r.Fresh}
		if stages != nil {
			text, err := json.Marshal(stages)
			require.NoError(t, err)
			answer.Parameters.Stages = string(text)
		}
		body, header, err = EncodeResponse(r, func(string) bool { return binary })
		require.NoError(t, err)
		if header < 0 {
			header = len(body)
		}
		requireJSON(t, answer, body[:header])
	})
}

func unreadableAny(all []wire.NamedTensor) bool {
	for _, t := range all {
		if unreadable(t.Tensor) {
			return true
		}
	}
	return false
}

// TestBodies has them in full: what is empty is left out.
func TestBodies(t *testing.T) {
	x := []wire.NamedTensor{{Name: "x", Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{2}, Data: []byte{1, 2}}}, {Name: "<é>", Tensor: wire.Tensor{Datatype: wire.Bool, Data: []byte{1}}}}
	body, header, err := EncodeRequest(&wire.InferRequest{Inputs: x}, 1)
	require.NoError(t, err)
	require.Equal(t, `{"parameters":{"binary_data_output":true,"timeout":1},"inputs":[{"name":"x","shape":[2],"datatype":"UINT8","parameters":{"binary_data_size":2}},{"name":"\u003cé\u003e","shape":[],"datatype":"BOOL","parameters":{"binary_data_size":1}}]}`, string(body[:header]))
	require.Equal(t, "\x01\x02\x01", string(body[header:]))
	body, err = EncodeRequestJSON(&wire.InferRequest{ID: "1", Inputs: x[:1], Outputs: []string{"y"}}, 0)
	require.NoError(t, err)
	require.Equal(t, `{"id":"1","inputs":[{"name":"x","shape":[2],"datatype":"UINT8","data":[1,2]}],"outputs":[{"name":"y"}]}`, string(body))
	body, header, err = EncodeResponse(&wire.InferResponse{Pipeline: "p", Outputs: x}, func(name string) bool { return name != "x" })
	require.NoError(t, err)
	require.Equal(t, `{"model_name":"p","model_version":"0","outputs":[{"name":"x","shape":[2],"datatype":"UINT8","data":[1,2]},{"name":"\u003cé\u003e","shape":[],"datatype":"BOOL","parameters":{"binary_data_size":1}}]}`, string(body[:header]))
	require.Equal(t, "\x01", string(body[header:]))
	body, header, err = EncodeResponse(&wire.InferResponse{ID: "1", Generation: 3, Elapsed: 4, Stages: []wire.Stage{{Module: "m", Items: 1}}}, nil)
	require.NoError(t, err)
	require.Equal(t, -1, header)
	require.Equal(t, `{"model_name":"","model_version":"3","id":"1","parameters":{"generation":3,"elapsed_ns":4,"stages":"[{\"module\":\"m\",\"items\":1,\"batch\":0,\"queue_ns\":0,\"wait_ns\":0,\"compute_ns\":0,\"transfer_ns\":0}]"},"outputs":[]}`, string(body))
}

func requireJSON(t require.TestingT, want any, got []byte) {
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, string(text), string(got))
}

// BenchmarkRequest reads requests of binary tensors and of JSON, small and of 150 kB.
func BenchmarkRequest(b *testing.B) {
	for _, elements := range []int{3, 37_500} {
		values := make([]float32, elements)
		for i := range values {
			values[i] = float32(i) / 8
		}
		q := &wire.InferRequest{ID: "17", Inputs: []wire.NamedTensor{{Name: "crop", Tensor: wire.FromFloat32(values, int64(elements))}}}
		for name, binary := range map[string]bool{"binary": true, "JSON": false} {
			b.Run(fmt.Sprintf("%s/%d", name, elements), func(b *testing.B) {
				body, header, err := encodeRequest(q, time.Second, binary, new(Places))
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := DecodeRequest(body, header); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAnswer reads an answer.
func BenchmarkAnswer(b *testing.B) {
	r := &wire.InferResponse{ID: "17", Pipeline: "vehicle", Generation: 1, Elapsed: time.Millisecond, Outputs: []wire.NamedTensor{{Name: "scores", Tensor: wire.FromFloat32([]float32{1, 2, 3, 4}, 4)}}}
	r.Stages = []wire.Stage{{Module: "vehicle", Items: 1, Batch: 4, Queue: time.Millisecond}}
	body, header, err := EncodeResponse(r, func(string) bool { return true })
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeResponse(body, header); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResponse(b *testing.B) {
	r := &wire.InferResponse{ID: "17", Pipeline: "vehicle", Generation: 1, Elapsed: time.Millisecond, Outputs: []wire.NamedTensor{{Name: "scores", Tensor: wire.FromFloat32([]float32{1, 2, 3, 4}, 4)}}}
	r.Stages = []wire.Stage{{Module: "vehicle", Items: 1, Batch: 4, Queue: time.Millisecond}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := EncodeResponse(r, func(string) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}
