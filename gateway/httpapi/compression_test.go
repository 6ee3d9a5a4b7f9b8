package httpapi

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
)

func zipped(t require.TestingT, coding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if coding == "deflate" {
		w = zlib.NewWriter(&b)
	}
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func TestCompressedBodies(t *testing.T) {
	long := wire.NamedTensor{Name: "y", Tensor: wire.FromFloat32(make([]float32, 4<<10), 4<<10)}
	h := New(&backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		require.Len(t, q.Inputs[0].Data, 8)
		return &wire.InferResponse{Outputs: []wire.NamedTensor{long}}, nil
	}}, Options{MaxBody: 1 << 20})
	plain := post(h, "/v2/models/p/infer", simple)
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	for _, coding := range []string{"gzip", "deflate"} {
		t.Run(coding, func(t *testing.T) {
			w := post(h, "/v2/models/p/infer", zipped(t, coding, simple), "Content-Encoding", coding, "Accept-Encoding", "br, "+coding+";q=0.5, identity;q=0.1")
			require.Equal(t, 200, w.Code, w.Body)
			require.Equal(t, coding, w.Header().Get("Content-Encoding"))
			require.Less(t, w.Body.Len(), plain.Body.Len()/4)
			var r io.Reader
			var err error
			if coding == "deflate" {
				r, err = zlib.NewReader(w.Body)
			} else {
				r, err = gzip.NewReader(w.Body)
			}
			require.NoError(t, err)
			back, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, plain.Body.String(), string(back))

			bomb := zipped(t, coding, strings.Repeat(" ", 64<<20))
			require.Less(t, len(bomb), 1<<20)
			w = post(h, "/v2/models/p/infer", bomb, "Content-Encoding", coding)
			require.Equal(t, 413, w.Code)
			require.Contains(t, w.Body.String(), "more than the 1048576 bytes")

			whole := zipped(t, coding, simple)
			for _, cut := range []string{"", whole[:1], whole[:len(whole)/2], whole[:len(whole)-1], whole[:len(whole)-3] + "abc", whole + "junk"} {
				w = post(h, "/v2/models/p/infer", cut, "Content-Encoding", coding)
				require.Equal(t, 400, w.Code, "%q: %s", cut, w.Body)
			}
		})
	}
	for _, not := range []string{"gzip;q=0", "br", "identity", "identity;q=1, gzip;q=0.1", "gzip;q=0.5, identity"} {
		require.Empty(t, post(h, "/v2/models/p/infer", simple, "Accept-Encoding", not).Header().Get("Content-Encoding"))
	}
	require.Equal(t, "gzip", post(h, "/v2/models/p/infer", simple, "Accept-Encoding", "gzip, identity").Header().Get("Content-Encoding"))
	for _, c := range []struct {
		lines []string
		body  string
		code  int
	}{
		{[]string{"Identity"}, simple, 200},
		{[]string{"", "identity"}, simple, 200},
		{[]string{"identity", "GZIP"}, zipped(t, "gzip", simple), 200},
		{[]string{"identity, X-Gzip"}, zipped(t, "gzip", simple), 200},
		{[]string{"gzip, deflate"}, zipped(t, "deflate", zipped(t, "gzip", simple)), 415},
		{[]string{"gzip", "gzip"}, zipped(t, "gzip", simple), 415},
		{[]string{"br"}, simple, 415},
	} {
		r := httptest.NewRequest("POST", "/v2/models/p/infer", strings.NewReader(c.body))
		r.Header["Content-Encoding"] = c.lines
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.code, w.Code, "%q: %s", c.lines, w.Body)
	}
	short := post(New(&backend{}, Options{}), "/v2/models/p/infer", simple, "Accept-Encoding", "gzip")
	require.Empty(t, short.Header().Get("Content-Encoding"), "it is not worth it")
}

// TestCompressedBodiesCount holds that what is decompressed counts as under way.
func TestCompressedBodiesCount(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	h := New(&backend{}, Options{Bytes: held})
	w := post(h, "/v2/models/p/infer", zipped(t, "gzip", strings.Repeat(" ", 8<<20)+simple), "Content-Encoding", "gzip")
	require.Equal(t, 429, w.Code, w.Body)
	require.Zero(t, held.Now())
	w = post(h, "/v2/models/p/infer", zipped(t, "gzip", simple), "Content-Encoding", "gzip")
	require.Equal(t, 200, w.Code, w.Body)
	require.Zero(t, held.Now())
}

func TestClassification(t *testing.T) {
	h := New(&backend{}, Options{})
	w := post(h, "/v2/models/p/infer", `{"inputs":[{"name":"x","shape":[2,3],"datatype":"FP32","data":[0.1,0.7,0.2,5,-1,5]}],"outputs":[{"name":"x","parameters":{"classification":2}}]}`)
	require.Equal(t, 200, w.Code, w.Body)
	var out struct {
		Outputs []struct {
			Datatype string
			Shape    []int
			Data     []string
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	require.Equal(t, "BYTES", out.Outputs[0].Datatype)
	require.Equal(t, []int{2, 2}, out.Outputs[0].Shape)
	require.Equal(t, []string{"0.700000:1", "0.200000:2", "5.000000:0", "5.000000:2"}, out.Outputs[0].Data)

	w = post(h, "/v2/models/p/infer", `{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"x","parameters":{"classification":2}}]}`)
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "has no classes")

	held := gateway.NewBytes(gateway.ByteLimits{Total: 3 << 19})
	h = New(&backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		return &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "x", Tensor: wire.Tensor{Datatype: wire.Uint8, Shape: []int64{1 << 17, 1}, Data: make([]byte, 1<<17)}}}}, nil
	}}, Options{Bytes: held})
	w = post(h, "/v2/models/p/infer", simple[:len(simple)-1]+`,"outputs":[{"name":"x","parameters":{"binary_data":true,"classification":1}}]}`)
	require.Equal(t, 429, w.Code, "classes count as under way")
	require.Zero(t, held.Now())
}

func TestConfiguration(t *testing.T) {
	h := New(&backend{}, Options{})
	for _, path := range []string{"/v2/models/p/config", "/v2/models/p/versions/4/config"} {
		code, body := get(t, h, path)
		require.Equal(t, 200, code)
		require.JSONEq(t, `{"name":"p","platform":"harpagon_pipeline","backend":"harpagon","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,
			"input":[{"name":"x","data_type":"TYPE_FP32","dims":[2]}],"output":[],"instance_group":[],"default_model_filename":""}`, body)
	}
	code, _ := get(t, h, "/v2/models/q/config")
	require.Equal(t, 404, code)
}
