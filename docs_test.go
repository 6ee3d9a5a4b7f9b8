package harpagon_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	pathLike = regexp.MustCompile(`^(\.ci|[a-z][a-z0-9_]*)(/[a-z0-9_]+)*(\.go)?$`)
)

// TestTheHouseHasWhatItsPageNames: every file and folder that docs/house.md walks
// through exists, and it names every package. A name stands for a path from the root, or
// below or beside a folder that its section has named before; a file alone lies in the
// folder that was named last.
func TestTheHouseHasWhatItsPageNames(t *testing.T) {
	text, err := os.ReadFile("docs/house.md")
	require.NoError(t, err)
	checked, named := 0, map[string]bool{}
	for _, section := range strings.Split(string(text), "\n## ") {
		folders, last := []string{"."}, "."
		for line := range strings.Lines(section) {
			first, _, table := strings.Cut(strings.TrimPrefix(line, "|"), "|")
			for _, m := range quoted.FindAllStringSubmatchIndex(line, -1) {
				name := line[m[2]:m[3]]
				names := strings.Contains(name, "/") || strings.HasSuffix(name, ".go") || table && m[1] <= len(first)+1
				if !pathLike.MatchString(name) || !names {
					continue
				}
				within := folders
				if !strings.Contains(name, "/") && strings.HasSuffix(name, ".go") {
					within = []string{last}
				}
				found := resolve(name, within)
				if assert.NotEmpty(t, found, "docs/house.md names %s, which is not there or not in the folder that was named last: %s", name, strings.TrimSpace(line)) {
					checked++
					named[found] = true
					folders = append(folders, found, path.Dir(found))
					if last = found; strings.HasSuffix(found, ".go") {
						last = path.Dir(found)
					}
				}
			}
		}
	}
	assert.Greater(t, checked, 80, "the page names files")
	assert.Empty(t, resolve("gateway/no_such_file.go", []string{"."}))
	for _, s := range sources(t) {
		if p := path.Dir(s.path); s.room != "" && s.room != "examples" && !strings.HasSuffix(p, "pb") && !named[p] {
			named[p] = true
			assert.Fail(t, "docs/house.md does not name package "+p, "say in its table of packages what it does and why it is a package")
		}
	}
}

// resolve finds a name in one of the folders, the last named first.
func resolve(name string, folders []string) string {
	for _, folder := range slices.Backward(folders) {
		at := path.Join(folder, name)
		if _, err := os.Stat(filepath.FromSlash(at)); err == nil {
			return at
		}
	}
	return ""
}
