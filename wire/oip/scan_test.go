package oip

import (
	"encoding/json"
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
	``, `{`, `{}`, `[]`, `{}x`, `{"id":"\x"}`, `{"id":"a`, `{"id":1,}`,
}

// requireTwins holds the scanner to encoding/json: what it reads is what that reads.
func requireTwins(t require.TestingT, raw []byte) {
	requireTwin(t, raw, (*scanner).request)
	requireTwin(t, raw, (*scanner).response)
	if all, ok := usualStages(raw); ok {
		var want []stageJSON
		require.NoError(t, json.Unmarshal(raw, &want), "%s", raw)
		text, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(text), encodeStages(all), "%s", raw)
	}
}

func requireTwin[T any](t require.TestingT, raw []byte, scan func(*scanner, *T)) {
	var got, want T
	s := scanner{rest: raw}
	if scan(&s, &got); !s.end() {
		return
	}
	require.NoError(t, json.Unmarshal(raw, &want), "%s", raw)
	require.Equal(t, want, got, "%s", raw)
}

func TestTheScannerReadsWhatEncodingJSONDoes(t *testing.T) {
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

// TestTheScannerReadsWhatIsUsual is what it is there for.
func TestTheScannerReadsWhatIsUsual(t *testing.T) {
	s := scanner{rest: []byte(bodies[0])}
	s.request(new(requestJSON))
	require.True(t, s.end())
	s = scanner{rest: []byte(bodies[1])}
	s.request(new(requestJSON))
	require.True(t, s.end())
	s = scanner{rest: []byte(bodies[5])}
	s.response(new(responseJSON))
	require.True(t, s.end())
	want := []wire.Stage{{Module: `a "b"`, Items: 1, Critical: true, Queue: 12}, {Transfer: -3}}
	all, ok := usualStages([]byte(encodeStages(want)))
	require.True(t, ok)
	require.Equal(t, want, all)
}

func FuzzScan(f *testing.F) {
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
			ask.Parameters.Timeout = json.Number(strconv.Itoa(us))
		}
		for _, name := range q.Outputs {
			ask.Outputs = append(ask.Outputs, wantedJSON{Name: name})
		}
		body, header, err := encodeRequest(q, time.Duration(us)*time.Microsecond, binary)
		require.NoError(t, err)
		requireJSON(t, ask, body[:header])

		r := &wire.InferResponse{ID: q.ID, Pipeline: text.Draw(t, "pipeline"), Generation: us % 3, Elapsed: time.Duration(us), Outputs: tensors}
		var stages []stageJSON
		for range rapid.IntRange(0, 3).Draw(t, "stages") {
			s := stageJSON{Module: text.Draw(t, "module"), Items: us, Batch: 2, Critical: us%2 == 0, Queue: 3, Wait: 4, Compute: 5, Transfer: -6}
			stages = append(stages, s)
			r.Stages = append(r.Stages, wire.Stage{Module: s.Module, Items: us, Batch: 2, Critical: s.Critical, Queue: 3, Wait: 4, Compute: 5, Transfer: -6})
		}
		answer := responseJSON{Model: r.Pipeline, Version: strconv.Itoa(r.Generation), ID: r.ID, Outputs: list}
		answer.Parameters = responseParameters{Generation: r.Generation, Elapsed: int64(us)}
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

func requireJSON(t require.TestingT, want any, got []byte) {
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, string(text), string(got))
}

func BenchmarkRequest(b *testing.B) {
	body, header, err := EncodeRequest(&wire.InferRequest{ID: "17", Inputs: []wire.NamedTensor{{Name: "crop", Tensor: wire.FromFloat32([]float32{1, 2, 3}, 3)}}}, time.Second)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRequest(body, header); err != nil {
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
