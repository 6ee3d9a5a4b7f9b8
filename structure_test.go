package harpagon_test

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostFilesInACircle is how many files of a package may need each other in a circle.
const mostFilesInACircle = 12

// TestPackagesAreReadable looks, in every package, for the largest set of files each of which
// uses a definition of every other, directly or through others.
func TestPackagesAreReadable(t *testing.T) {
	for _, p := range productionPackages(t) {
		circle := p.largestCircle(t)
		assert.LessOrEqual(t, len(circle), mostFilesInACircle, "%s: these files need each other in a circle: %s", p.path, strings.Join(circle, " "))
	}
}

// production is a package as the compiler saw it.
type production struct {
	path    string
	files   []string
	exports map[string]string // compiled package by import path
}

func productionPackages(t *testing.T) []production {
	format := "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}{{range .CgoFiles}}{{.}} {{end}}"
	command := exec.Command("go", "list", "-tags", "noserver", "-export", "-deps", "-f", format, "./...")
	var complaint bytes.Buffer
	command.Stderr = &complaint
	text, err := command.Output()
	require.NoError(t, err, complaint.String())
	exports := map[string]string{}
	var all []production
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		field := strings.Split(lines.Text(), "\t")
		exports[field[0]] = field[1]
		if !strings.HasPrefix(field[0], strings.TrimSuffix(module, "/")) {
			continue
		}
		p := production{path: field[0], exports: exports}
		for _, name := range strings.Fields(field[3]) {
			if !strings.HasSuffix(name, ".pb.go") {
				p.files = append(p.files, filepath.Join(field[2], name))
			}
		}
		if len(p.files) > 0 {
			all = append(all, p)
		}
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

// largestCircle names the files of the largest circle.
func (p production) largestCircle(t *testing.T) []string {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.files {
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) }),
		Error:    func(error) {}, // cgo's names are unknown here
	}
	pkg, _ := config.Check(p.path, set, files, info)
	needs := make(map[string][]string)
	for used, object := range info.Uses {
		if object.Pkg() != pkg {
			continue
		}
		from, to := filepath.Base(set.Position(used.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(needs[from], to) {
			needs[from] = append(needs[from], to)
		}
	}
	var names []string
	for _, name := range p.files {
		names = append(names, filepath.Base(name))
	}
	return largestComponent(names, needs)
}

// largestComponent is the largest strongly connected component of a graph
// (Tarjan 1972).
func largestComponent(nodes []string, next map[string][]string) (largest []string) {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, onStack[v] = append(stack, v), true
		for _, w := range next[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		start := slices.Index(stack, v)
		component := slices.Clone(stack[start:])
		stack = stack[:start]
		for _, w := range component {
			onStack[w] = false
		}
		if len(component) > len(largest) {
			largest = component
		}
	}
	for _, v := range nodes {
		if index[v] == 0 {
			visit(v)
		}
	}
	slices.Sort(largest)
	return largest
}

func TestLargestComponent(t *testing.T) {
	next := map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}
	assert.Equal(t, []string{"a", "b", "c"}, largestComponent([]string{"a", "b", "c", "d", "e"}, next))
	assert.Len(t, largestComponent([]string{"x"}, nil), 1)
}
