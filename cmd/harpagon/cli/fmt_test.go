package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

const (
	ugly   = "# kept\nhardware   \"cpu\" {\nprice=0.05\n  count   = 2 # two\n}\n"
	pretty = "# kept\nhardware \"cpu\" {\n  price = 0.05\n  count = 2 # two\n}\n"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// A declaration is not lost by being formatted on a disk that takes nothing more.
func TestFmtOnADiskThatTakesNothing(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			path := filepath.Join(d.Folder, "a.hcl")
			require.NoError(t, os.WriteFile(path, []byte(ugly), 0o600))
			require.NoError(t, fault.Begin(d))
			got := run(t, "fmt", path)
			assert.NotEqual(t, ExitOK, got.code)
			assert.Contains(t, got.stderr, path)
			assert.Equal(t, ugly, read(t, path))
			require.NoError(t, fault.End(d))
			assert.Equal(t, ExitOK, run(t, "fmt", path).code)
			assert.Equal(t, pretty, read(t, path))
		})
	}
}

func TestFmtWrites(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": ugly, "b.hcl": pretty, "c.txt": ugly, "deep/d.hcl": ugly, ".hidden/e.hcl": ugly})
	a, d := filepath.Join(dir, "a.hcl"), filepath.Join(dir, "deep", "d.hcl")
	require.NoError(t, os.Chmod(a, 0o600))

	assert.Equal(t, result{ExitOK, a + "\n", ""}, run(t, "fmt", dir))
	assert.Equal(t, pretty, read(t, a))
	info, err := os.Stat(a)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Equal(t, ugly, read(t, filepath.Join(dir, "c.txt")))
	assert.Equal(t, ugly, read(t, d))

	assert.Equal(t, result{ExitOK, "", ""}, run(t, "fmt", "--recursive", "--list=false", dir))
	assert.Equal(t, pretty, read(t, d))
	assert.Equal(t, ugly, read(t, filepath.Join(dir, ".hidden", "e.hcl")))
	assert.Equal(t, result{ExitOK, "", ""}, run(t, "fmt", "--check", "-r", dir))
}

func TestFmtChecksWithoutWriting(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": ugly})
	a := filepath.Join(dir, "a.hcl")
	assert.Equal(t, result{ExitError, a + "\n", ""}, run(t, "fmt", "--check", dir))
	assert.Equal(t, ugly, read(t, a))
	assert.Equal(t, result{ExitOK, a + "\n", ""}, run(t, "fmt", "--write=false", a))
	assert.Equal(t, ugly, read(t, a))

	got := run(t, "fmt", "--check", "--diff", "--list=false", a)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stdout, "--- "+a)
	assert.Contains(t, got.stdout, "-price=0.05\n")
	assert.Contains(t, got.stdout, "+  price = 0.05\n")
	assert.Equal(t, ugly, read(t, a))
}

func TestFmtOfStandardInput(t *testing.T) {
	in := func() Deps { return Deps{Stdin: strings.NewReader(ugly)} }
	assert.Equal(t, result{ExitOK, pretty, ""}, runWith(t, in(), "fmt", "-"))
	assert.Equal(t, result{ExitError, "<stdin>\n", ""}, runWith(t, in(), "fmt", "--check", "-"))
	assert.Equal(t, ExitOK, runWith(t, Deps{Stdin: strings.NewReader(pretty)}, "fmt", "--check", "-").code)
}

func TestFmtShowsWhatItCannotParse(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": "hardware \"cpu\" {\n  price = \n}\n", "b.hcl": ugly})
	got := run(t, "fmt", dir)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "a.hcl line 2")
	assert.Contains(t, got.stderr, "price =")
	assert.Equal(t, pretty, read(t, filepath.Join(dir, "b.hcl")), "the other files are formatted all the same")
}
