package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/oip"
)

// An answer that is made up is marked so, for people and for programs.
func TestInferMarksEmulatedAnswers(t *testing.T) {
	platform := oip.PlatformEmulated
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/infer") {
			fmt.Fprint(w, `{"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[0]}],"parameters":{"stages":"[{\"module\":\"m\",\"items\":1,\"batch\":1}]"}}`)
			return
		}
		fmt.Fprintf(w, `{"name":"m","versions":["1"],"platform":%q,"inputs":[{"name":"x","datatype":"FP32","shape":[2]}],"outputs":[],"parameters":{"ready":true}}`, platform)
	}))
	defer at.Close()
	args := []string{"infer", "m", "--gateway", at.URL, "--input", "x=" + filepath.Join(folder(t, map[string]string{"x.json": "[1, 2]"}), "x.json")}
	for _, emulated := range []bool{true, false} {
		got := run(t, args...)
		require.Equal(t, ExitOK, got.code, got.stderr)
		assert.Equal(t, emulated, strings.Contains(got.stdout, "The answer is emulated"), got.stdout)
		got = run(t, append(args, "--json")...)
		assert.Equal(t, emulated, strings.Contains(got.stdout, `"emulated": true`), got.stdout)
		platform = oip.Platform
	}
}
