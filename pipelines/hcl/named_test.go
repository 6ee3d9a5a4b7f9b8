package hcl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// naming are declarations whose attribute in line 3 names a file.
var naming = map[string]string{
	"module profile":   "pipeline \"p\" {\nmodule \"m\" {\nprofile = %q\n} \n}",
	"pool profile":     "pool \"p\" {\nslo = \"1s\"\nprofile = %q\nbudget = 1\nbase = \"a\"\n}",
	"sizes":            "pool \"p\" {\nslo = \"1s\"\nsizes = %q\nbudget = 1\nbase = \"a\"\n}",
	"function profile": "function \"f\" {\nprovider = provider.c\nprofile = %q\n}",
	"prices":           "hardware \"a\" {\n\nprices = %q\n}",
	"trace":            "pipeline \"p\" {\nslo = \"1s\"\narrivals = \"trace:${%q}\"\n}",
	"sample":           "pipeline \"p\" {\ninput \"x\" {\nsample = %q\nshape = [-1]\ndatatype = \"FP32\"\n}\n}",
	"sample in JSON":   "pipeline \"p\" {\ninput \"x\" {\nsample = \"${%q}.json\"\nshape = [-1]\ndatatype = \"FP32\"\n}\n}",
	"picture":          "pipeline \"p\" {\ninput \"x\" {\nsample = \"${%q}.png\"\nshape = [3, -1, -1]\ndatatype = \"FP32\"\n}\n}",
	"model":            "pipeline \"p\" {\nmodule \"m\" {\nmodel = %q\n} \n}",
	"a command's file": "pipeline \"p\" {\nmodule \"m\" {\nfiles = [%q]\ncommand = [\"serve\"]\n} \n}",
}

// Whatever attribute names it: a device is not read until memory ends, nor a pipe waited for.
func TestEveryNamedFileIsARegularOne(t *testing.T) {
	for name, text := range naming {
		for _, kind := range []string{"zero", "pipe"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, kind)
				for _, at := range []string{path, path + ".json", path + ".png"} {
					if kind == "zero" {
						require.NoError(t, os.Symlink("/dev/zero", at))
					} else {
						require.NoError(t, syscall.Mkfifo(at, 0o600))
					}
				}
				main := filepath.Join(dir, "main.hcl")
				require.NoError(t, os.WriteFile(main, fmt.Appendf(nil, text, path), 0o600))
				c, diags := Load(LoadOptions{}, main)
				diags = append(diags, c.Validate(nil)...)
				for _, d := range diags {
					if strings.Contains(d.Detail, "is no regular file") {
						require.NotNil(t, d.Subject)
						assert.Equal(t, main, d.Subject.Filename)
						assert.Equal(t, 3, d.Subject.Start.Line)
						return
					}
				}
				t.Errorf("nobody says it: %v", diags)
			})
		}
	}
}

func TestNamedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	load := func(main string) string {
		at := filepath.Join(dir, "main.hcl")
		require.NoError(t, os.WriteFile(at, []byte(main), 0o600))
		_, diags := Load(LoadOptions{}, at)
		require.True(t, diags.HasErrors())
		assert.Less(t, len(diags), 300)
		return fmt.Sprint(diags.Errs())
	}
	rows := func(n int, row string) {
		text := "hardware,batch,duration_ms,concurrency\n"
		for i := range n {
			text += fmt.Sprintf(row, 1+i%pipelines.MaxBatch, 1+i/pipelines.MaxBatch)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "m.csv"), []byte(text), 0o600))
	}
	one := "pipeline \"p\" {\nmodule \"m\" {\nprofile = \"m.csv\"\n}\n}"
	rows(pipelines.MaxPoints+5, "gpu,%d,1,%d\n")
	assert.Contains(t, load(one), fmt.Sprintf("m.csv:%d,1-", pipelines.MaxPoints+2), "the line of the first that is too much")
	assert.Contains(t, load(one), "at most 10000 points")
	rows(5000, "gpu,%d,none,%d\n")
	assert.Contains(t, load(one), "Not a number")
	f, err := os.Create(filepath.Join(dir, "m.csv"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	assert.Contains(t, load(one), "it may have 16777216")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.csv"), []byte("hardware,batch,duration_ms\n#"+strings.Repeat("x", 1<<20)+"\ngpu,1,1\n"), 0o600))
	many := "pipeline \"p\" {\n"
	for i := range 130 {
		many += fmt.Sprintf("module \"m%d\" {\nprofile = \"m.csv\"\n}\n", i)
	}
	assert.Contains(t, load(many+"}"), "Too complex")
}
