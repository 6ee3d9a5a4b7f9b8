package harpagon_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	pathLike = regexp.MustCompile(`^(\.ci|[a-z][a-z0-9_]*)(/[a-z0-9_]+)*(\.go)?$`)
)

// TestTheHouseHasWhatItsPageNames: every file and folder that docs/architecture.md walks
// through exists, and it names every package. A name stands for a path from the root, or
// below or beside a folder that its section has named before; a file alone lies in the
// folder that was named last.
func TestTheHouseHasWhatItsPageNames(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
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
				if assert.NotEmpty(t, found, "docs/architecture.md names %s, which is not there or not in the folder that was named last: %s", name, strings.TrimSpace(line)) {
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
			assert.Fail(t, "docs/architecture.md does not name package "+p, "say in its table of packages what it does and why it is a package")
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

var (
	nothing = regexp.MustCompile(`(?i)^(none|xxx)$`)
	goTest  = regexp.MustCompile(`go test [^` + "`" + `\n]*`)
	picks   = regexp.MustCompile(`-(run|bench) '?\^?([A-Za-z0-9_]+)[^ ]*`)
	target  = regexp.MustCompile(`\./[a-z0-9/_]+`)
)

// TestPagesNameWhatIsThere: paths into the rooms that pages quote exist, and the tests and
// benchmarks that they say how to run are in the package that they name.
func TestPagesNameWhatIsThere(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if roomOf(m[1]) != "" && strings.Contains(m[1], "/") && pathLike.MatchString(m[1]) {
					assert.NotEmpty(t, resolve(m[1], []string{"."}), "%s names %s, which is not there", page, m[1])
				}
			}
		}
		for _, command := range goTest.FindAllString(string(text), -1) {
			for _, pick := range picks.FindAllStringSubmatch(command, -1) {
				kind, folder := map[string]string{"run": "Test", "bench": "Benchmark"}[pick[1]], target.FindString(command)
				if folder == "" || nothing.MatchString(pick[2]) {
					continue
				}
				ran++
				assert.True(t, declares(t, folder, kind, pick[2]), "%s says %q: %s has no such %s", page, command, folder, kind)
			}
		}
	}
	assert.Greater(t, ran, 10, "pages say how to run tests")
}

// pages are the Markdown files of the repository, from the root.
func pages(t *testing.T) []string {
	var found []string
	for _, at := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "python/*.md"} {
		files, err := filepath.Glob(at)
		require.NoError(t, err)
		found = append(found, files...)
	}
	return slices.DeleteFunc(found, func(page string) bool { return page == "CHANGELOG.md" })
}

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	anchors = regexp.MustCompile("[^a-z0-9 _-]")
)

// TestLinksLeadSomewhere: what pages link to within the repository is there, headings too.
func TestLinksLeadSomewhere(t *testing.T) {
	checked := 0
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], ":") {
				continue
			}
			checked++
			at := page
			if file != "" {
				at = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(at); !assert.NoError(t, err, "%s links to %s", page, m[1]) || anchor == "" {
				continue
			}
			target, err := os.ReadFile(at)
			require.NoError(t, err)
			assert.Contains(t, slugs(string(target)), anchor, "%s links to a heading that %s does not have", page, at)
		}
	}
	assert.Greater(t, checked, 100)
}

// slugs are the anchors that renderers of Markdown give to the headings of a page.
func slugs(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(anchors.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// declares reports whether a test or benchmark of the folder has the name in its own.
func declares(t *testing.T, folder, kind, name string) bool {
	files, err := filepath.Glob(folder + "/*_test.go")
	require.NoError(t, err)
	function := regexp.MustCompile(`(?m)^func ` + kind + `\w*\(`)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return slices.ContainsFunc(function.FindAllString(string(text), -1), func(line string) bool { return strings.Contains(line, name) })
	})
}

// TestPageOfErrors: docs/reference/errors.md lists the codes with their statuses, and the outcomes.
func TestPageOfErrors(t *testing.T) {
	text, err := os.ReadFile("docs/reference/errors.md")
	require.NoError(t, err)
	page := string(text)
	source, err := os.ReadFile("wire/errors.go")
	require.NoError(t, err)
	var want, got []string
	for _, m := range regexp.MustCompile(`Code(\w+) +Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		code := wire.Code(m[2])
		want = append(want, fmt.Sprintf("| `%s` | %d | %v | `sdk.Err%s` |", code, oip.Status(code), codes.Code(oip.GRPC(code)), m[1]))
	}
	got = append(got, regexp.MustCompile("(?m)^\\| `\\w+` \\| [0-9]{3} \\| \\w+ \\| `[\\w.]+` \\|").FindAllString(page, -1)...)
	assert.ElementsMatch(t, want, got)
	_, outcomes, _ := strings.Cut(page, "## Outcomes")
	for o := dispatcher.Completed; o <= dispatcher.Invalid; o++ {
		assert.Contains(t, outcomes, "| `"+o.String()+"` |")
	}
}
