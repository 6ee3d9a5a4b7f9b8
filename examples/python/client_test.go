package python_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
)

// python finds an interpreter that has numpy.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			return p
		}
	}
	t.Skip("needs python3 with numpy (Debian: python3-numpy)")
	return ""
}

const program = `
import sys
import numpy as np
from client import Client, InferenceError

with Client(sys.argv[1], token="secret") as c:
    for array in [np.arange(6, dtype=t).reshape(2, 3) for t in (np.float32, np.float64, np.float16, np.uint8, np.int64, np.int8)]:
        back = c.infer("echo", {"x": array})["x"]
        assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all(), back
    texts = c.infer("echo", {"x": np.array(["a", "ü", ""])})["x"]
    assert texts.tolist() == [b"a", "ü".encode(), b""], texts
    big = c.infer("echo", {"x": np.zeros((2, 2), dtype=">f4"), "y": np.array(7.5, np.float32)})
    assert big["x"].shape == (2, 2) and big["y"].shape == () and big["y"] == 7.5, big
    for name, code, status in [("late", "deadline", 504), ("nobody", "not_found", 404)]:
        try:
            c.infer(name, {"x": np.zeros(1, np.float32)}, timeout=0.25)
            raise SystemExit("no error of " + name)
        except InferenceError as e:
            assert (e.code, e.status) == (code, status), (e.code, e.status, e)
    try:
        c.infer("echo", {"x": np.zeros(1, complex)})
        raise SystemExit("complex numbers were sent")
    except TypeError as e:
        assert "complex128 has no datatype" in str(e)
try:
    Client(sys.argv[1]).infer("echo", {"x": np.zeros(1, np.float32)})
    raise SystemExit("no token was required")
except InferenceError as e:
    assert e.status == 401, e
print("ok")
`

func TestClientSpeaksTheProtocol(t *testing.T) {
	interpreter := python(t)
	server := httptest.NewServer(httpapi.New(sdktest.Fake{
		"echo": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) { return sdktest.Outputs(in), nil },
		"late": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) {
			return nil, wire.Errorf(wire.CodeDeadline, "detect", "the deadline can no longer be met")
		},
	}, httpapi.Options{Callers: secure.Credentials{Token: "secret"}.Guard()}))
	defer server.Close()
	cmd := exec.Command(interpreter, "-c", program, strings.TrimPrefix(server.URL, "http://"))
	cmd.Dir = "."
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))
}

func TestProgramSendsAFile(t *testing.T) {
	interpreter := python(t)
	server := httptest.NewServer(httpapi.New(sdktest.Fake{
		"echo": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) { return sdktest.Outputs(in), nil },
	}, httpapi.Options{}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "picture.bin")
	require.NoError(t, os.WriteFile(file, []byte{1, 0, 255}, 0o600))
	cmd := exec.Command(interpreter, "-B", "client.py", strings.TrimPrefix(server.URL, "http://"), "echo", "picture", file)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "picture object (1,) [b'\\x01\\x00\\xff']\n", string(out))
}
