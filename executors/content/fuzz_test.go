package content

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire/secure"
)

// FuzzHandler sends any bytes that make a request of HTTP to a store: nothing lies in it
// but what has the digest that it lies by, and nothing beside it is read or written.
func FuzzHandler(f *testing.F) {
	const digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	for _, path := range []string{"/sha256/" + digest, "/sha256/..%2Foutside", "/sha256/%2e%2e/outside", "//sha256/" + digest, "/sha256/" + digest + "/.."} {
		for _, method := range []string{"PUT", "GET", "HEAD"} {
			f.Add(fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nRange: bytes=0-0\r\n\r\nx", method, path))
		}
	}
	root := f.TempDir()
	store := filepath.Join(root, "store")
	require.NoError(f, os.WriteFile(filepath.Join(root, "outside"), []byte("beside it"), 0o600))
	h := Handler(Folder(store), 0, secure.Guard{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
		require.NotContains(t, w.Body.String(), "beside it")
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path == filepath.Join(root, "outside") {
				return err
			}
			in, err := os.Open(path)
			if err != nil {
				return err
			}
			defer in.Close()
			got, _, err := Sum(in)
			require.Equal(t, filepath.Join(store, "sha256", got[len("sha256:"):]), path)
			return err
		}))
	})
}
