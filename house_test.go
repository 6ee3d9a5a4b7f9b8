package harpagon_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/harpagon/harpagon/"

// floors lists the rooms from the top of the house to its bottom. A room may
// import rooms that stand below it, and itself.
var floors = []string{
	"cmd", "experiments", "sdk/local", "examples", "sdk", "gateway", "workflows", "activities",
	"dispatcher", "executors", "python", "scheduler", "wire", "pipelines", "internal",
}

// lightRooms may import only these rooms, whatever stands below them: a client
// program must not compile a server.
var lightRooms = map[string][]string{
	"sdk":       {"sdk", "wire", "pipelines", "internal"},
	"wire":      {"wire", "pipelines", "internal"},
	"pipelines": {"pipelines", "internal"},
}

// impure are imports that no decision may have: decisions get time, randomness
// and data as values.
var impure = []string{
	"net", "net/http", "os/exec", "log", "log/slog", "sync", "time/tzdata",
	"go.temporal.io/sdk", "google.golang.org/grpc",
}

// readsFiles is the one place of the pure rooms that may touch a file system:
// the loader of declarations.
const readsFiles = "pipelines"

type source struct {
	path string // slash-separated, from the root
	room string
	file *ast.File
	fset *token.FileSet
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			target, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			to := roomOf(target)
			assert.GreaterOrEqual(t, slices.Index(floors, to), slices.Index(floors, s.room),
				"%s imports %s: a folder imports only what stands below it in docs/architecture.md", s.path, path)
			if allowed, light := lightRooms[s.room]; light {
				assert.Contains(t, allowed, to, "%s imports %s: %s is kept light", s.path, path, s.room)
			}
		}
	}
}

func TestDecisionsArePure(t *testing.T) {
	for _, s := range sources(t) {
		if s.room != "scheduler" && s.room != "pipelines" || strings.HasSuffix(s.path, ".pb.go") { // generated: data
			continue
		}
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			for _, bad := range impure {
				assert.False(t, path == bad || strings.HasPrefix(path, bad+"/"),
					"%s imports %s: a decision is pure", s.path, path)
			}
			if path == "os" {
				assert.Equal(t, readsFiles, s.room, "%s imports os", s.path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: starts a goroutine", s.fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && pkg.Obj == nil {
					switch n.Sel.Name {
					case "Now", "Since", "Until", "Sleep", "After", "NewTimer", "Tick", "AfterFunc":
						t.Errorf("%s: time.%s: time arrives as a value", s.fset.Position(n.Pos()), n.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") {
			continue // generated; the registration is protobuf's own
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				assert.NotEqual(t, "init", f.Name.Name, "%s: engines and policies are values passed in", s.path)
			}
		}
	}
}

func TestEveryPackageTeaches(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(s.path))
		documented[dir] = documented[dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		assert.True(t, ok, "%s has no package comment", dir)
	}
}

func TestFilesStaySmall(t *testing.T) {
	const most = 600
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") {
			continue
		}
		lines := s.fset.File(s.file.Pos()).LineCount()
		assert.LessOrEqual(t, lines, most, "%s has %d lines", s.path, lines)
	}
}

func TestClientsDoNotCompileTheServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./sdk").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, dep := range strings.Fields(string(out)) {
		assert.False(t, strings.HasPrefix(dep, "go.temporal.io/"), "sdk depends on %s", dep)
		assert.False(t, strings.HasPrefix(dep, module+"gateway"), "sdk depends on %s", dep)
	}
}

func TestServerIsLinkedInOnePlace(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "sdk/local/embedded/") {
			continue
		}
		for _, imp := range s.file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			assert.False(t, strings.HasPrefix(path, "go.temporal.io/server") || strings.HasPrefix(path, "github.com/temporalio/ui-server"),
				"%s imports %s", s.path, path)
		}
	}
}

// sources parses every file of the project that is not a test.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !strings.Contains(path, "/") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{path: path, room: roomOf(path), file: file, fset: fset})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// roomOf is the room that a path below the root belongs to: the longest that
// matches.
func roomOf(path string) string {
	best := ""
	for _, room := range floors {
		if (path == room || strings.HasPrefix(path, room+"/")) && len(room) > len(best) {
			best = room
		}
	}
	return best
}
