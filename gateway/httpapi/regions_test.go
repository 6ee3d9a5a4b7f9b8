package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// sharing makes a handler whose callers may share memory, and a file of it of 24 bytes with two numbers.
func sharing(t *testing.T, b *backend, o Options) (h http.Handler, key string, file *os.File) {
	if _, err := os.Stat(osutil.SharedMemory); err != nil {
		t.Skip("shared memory has no names here: ", err)
	}
	file, err := os.CreateTemp(osutil.SharedMemory, "client-test-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	})
	_, err = file.Write(append(wire.FromFloat32([]float32{1, 2}, 2).Data, make([]byte, 16)...))
	require.NoError(t, err)
	o.Regions, err = oip.NewRegions("client-test-")
	require.NoError(t, err)
	return New(b, o), "/" + filepath.Base(file.Name()), file
}

// from sends a request as a client at that address.
func from(h http.Handler, address, method, path, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = address
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const (
	here   = "127.0.0.1:5000"
	region = "/v2/systemsharedmemory/region/"

	placed = `{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"shared_memory_region":"in","shared_memory_byte_size":8}}],` +
		`"outputs":[{"name":"x","parameters":{"shared_memory_region":"out","shared_memory_offset":4,"shared_memory_byte_size":8}}]}`
)

func TestTensorsInSharedMemory(t *testing.T) {
	bytes := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	b := &backend{}
	h, key, file := sharing(t, b, Options{Bytes: bytes, MaxBody: 1 << 10})
	ask := func(method, path, body string) string {
		code, text := from(h, here, method, path, body)
		require.Equal(t, 200, code, text)
		return text
	}
	require.Contains(t, ask("GET", "/v2", ""), `"system_shared_memory"`)
	require.Equal(t, "[]", ask("GET", "/v2/systemsharedmemory/status", ""))
	ask("POST", region+"in/register", `{"key":"`+key+`","offset":0,"byte_size":8}`)
	ask("POST", region+"out/register", `{"key":"`+key+`","offset":8,"byte_size":16}`)
	require.JSONEq(t, `[{"name":"in","key":"`+key+`","offset":0,"byte_size":8},{"name":"out","key":"`+key+`","offset":8,"byte_size":16}]`, ask("GET", "/v2/systemsharedmemory/status", ""))
	require.JSONEq(t, `[{"name":"in","key":"`+key+`","offset":0,"byte_size":8}]`, ask("GET", region+"in/status", ""))

	var answer struct {
		Outputs []struct {
			Shape      []int64
			Data       json.RawMessage
			Parameters map[string]any
		}
	}
	b.infer = func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		require.False(t, q.Textual("x"), "what does not go as JSON may be no number")
		return &wire.InferResponse{Outputs: q.Inputs}, nil
	}
	require.NoError(t, json.Unmarshal([]byte(ask("POST", "/v2/models/p/infer", placed)), &answer))
	require.Equal(t, map[string]any{"shared_memory_region": "out", "shared_memory_offset": 4., "shared_memory_byte_size": 8.}, answer.Outputs[0].Parameters)
	require.Equal(t, []int64{2}, answer.Outputs[0].Shape)
	require.Nil(t, answer.Outputs[0].Data)
	raw, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, raw[:8], raw[12:20])

	// Memory that is registered while its region is used is another one.
	b.infer = func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		ask("POST", "/v2/systemsharedmemory/unregister", "")
		ask("POST", region+"out/register", `{"key":"`+key+`","offset":0,"byte_size":24}`)
		return &wire.InferResponse{Outputs: q.Inputs}, nil
	}
	code, text := from(h, here, "POST", "/v2/models/p/infer", placed)
	require.Equal(t, 400, code)
	require.Contains(t, text, "was unregistered before it was written")
	code, text = from(h, here, "POST", "/v2/models/p/infer", placed)
	require.Equal(t, 400, code)
	require.Contains(t, text, `no region \"in\"`)
	require.Zero(t, bytes.Now())
}

func TestSharedMemoryThatIsRefused(t *testing.T) {
	h, key, file := sharing(t, &backend{}, Options{Bytes: gateway.NewBytes(gateway.ByteLimits{Total: 64 << 10}), MaxBody: 1 << 20})
	register := `{"key":"` + key + `","offset":0,"byte_size":24}`
	for _, c := range []struct {
		name, address, method, path, body string
		code                              int
		says                              string
		header                            []string
	}{
		{"of another host", "192.0.2.1:5000", "POST", region + "in/register", register, 400, "on the gateway's machine", nil},
		{"through a proxy", here, "POST", region + "in/register", register, 400, "on the gateway's machine", []string{"X-Forwarded-For", "192.0.2.1"}},
		{"of a page", here, "POST", region + "in/register", register, 400, "or a browser", []string{"Origin", "http://example.org"}},
		{"no JSON", here, "POST", region + "in/register", "x", 400, "not valid JSON", nil},
		{"a wrong key", here, "POST", region + "in/register", `{"key":"/passwords","byte_size":1}`, 400, "may be /client-test-", nil},
		{"in", here, "POST", region + "in/register", register, 200, "", nil},
		{"twice", here, "POST", region + "in/register", register, 400, "already", nil},
		{"out", here, "POST", region + "out/register", register, 200, "", nil},
		{"used elsewhere", "192.0.2.1:5000", "POST", "/v2/models/p/infer", placed, 400, "not from callers like this one", nil},
		{"too short", here, "POST", "/v2/models/p/infer", strings.Replace(placed, `"shape":[2]`, `"shape":[3]`, 1), 400, "needs 3 elements", nil},
		{"too little room", here, "POST", "/v2/models/p/infer", strings.Replace(placed, `"shared_memory_offset":4,"shared_memory_byte_size":8`, `"shared_memory_byte_size":4`, 1), 400, "more than its shared_memory_byte_size of 4", nil},
		{"beyond the region", here, "POST", "/v2/models/p/infer", strings.Replace(placed, `"shared_memory_offset":4`, `"shared_memory_offset":17`, 1), 400, "are not within the 24 bytes", nil},
		{"data besides", here, "POST", "/v2/models/p/infer", strings.Replace(placed, `"FP32",`, `"FP32","data":[1,2],`, 1), 400, "both shared_memory_region and data", nil},
		{"one output over another", here, "POST", "/v2/models/p/infer", strings.Replace(placed, `"outputs":[`, `"outputs":[{"name":"y","parameters":{"shared_memory_region":"in","shared_memory_byte_size":5}},`, 1), 400, "overlaps with that of output", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text := from(h, c.address, c.method, c.path, c.body, c.header...)
			require.Equal(t, c.code, code, text)
			require.Contains(t, text, c.says)
		})
	}

	// What is large on paper takes no memory: tmpfs has holes.
	require.NoError(t, file.Truncate(1<<40))
	code, text := from(h, here, "POST", region+"large/register", strings.Replace(register, `:24`, `:1099511627776`, 1))
	require.Equal(t, 200, code, text)
	large := func(size string) (int, string) {
		return from(h, here, "POST", "/v2/models/p/infer", strings.NewReplacer(`"in"`, `"large"`, `"shared_memory_byte_size":8}}],`, `"shared_memory_byte_size":`+size+`}}],`).Replace(placed))
	}
	code, text = large("1099511627776")
	require.Equal(t, 413, code, text)
	code, text = large("131072")
	require.Equal(t, 429, code, text)
	require.Contains(t, text, "--max-bytes")

	// Cut short while it is registered.
	require.NoError(t, file.Truncate(4))
	code, text = from(h, here, "POST", "/v2/models/p/infer", placed)
	require.Equal(t, 400, code)
	require.Contains(t, text, "has been made shorter")
}

func TestSharedMemoryIsOff(t *testing.T) {
	h := New(&backend{}, Options{})
	code, text := from(h, here, "GET", "/v2/systemsharedmemory/status", "")
	require.Equal(t, 404, code, text)
	code, text = from(h, here, "POST", "/v2/models/p/infer", placed)
	require.Equal(t, 400, code)
	require.Contains(t, text, "takes from none")
}

func TestSharedMemoryNeedsItsScope(t *testing.T) {
	line := func(name, scope, hash string) string { return name + " " + scope + " sha256:" + hash + "\n" }
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(
		line("alice", "infer", "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90")+ // alice
			line("bob", "infer", "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9")+ // bob
			line("carol", "read,infer:p", "4c26d9074c27d89ede59270c0ac14b71e071b15239519f75474b2f3ba63481f5")), 0o600)) // carol
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	h, key, _ := sharing(t, &backend{}, Options{Callers: secure.Credentials{Tokens: tokens}.Guard()})
	register := `{"key":"` + key + `","offset":0,"byte_size":24}`
	for _, c := range []struct {
		token string
		code  int
	}{{"", 401}, {"carol", 401}, {"alice", 200}, {"bob", 200}, {"bob", 400}} {
		code, text := from(h, here, "POST", region+"in/register", register, "Authorization", "Bearer "+c.token)
		require.Equal(t, c.code, code, c.token+text)
	}
	code, _ := from(h, here, "POST", "/v2/systemsharedmemory/unregister", "", "Authorization", "Bearer bob")
	require.Equal(t, 200, code)
	code, _ = from(h, here, "GET", region+"in/status", "", "Authorization", "Bearer alice")
	require.Equal(t, 200, code, "one caller does not unregister another's")
}
