package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allowed is everything that a decision may import besides its own room and
// the declaration. A package joins the list when someone needs it and it
// neither does input or output nor keeps state.
var allowed = []string{
	"bytes", "cmp", "container/heap", "encoding/binary", "encoding/json", "errors", "fmt", "hash/crc32", "hash/fnv", "iter", "maps", "math", "math/bits",
	"math/rand/v2", "reflect", "slices", "strconv", "strings", "text/tabwriter", "time", "unsafe",

	"gonum.org/v1/gonum/mat",  // covariances of Bayesian optimisation
	"gonum.org/v1/gonum/stat", // linear regression
}

const module = "github.com/harpagon/harpagon/"

func TestDecisionsImportOnlyWhatIsPure(t *testing.T) {
	eachFile(t, func(path string, _ *token.FileSet, f *ast.File) {
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			ours := strings.HasPrefix(name, module+"pipelines") || strings.HasPrefix(name, module+"scheduler/")
			assert.True(t, ours || slices.Contains(allowed, name), "%s imports %s", path, name)
		}
	})
}

func TestDecisionsTouchNoClockAndNoSharedState(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	generators := []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				pkg, _ := n.X.(*ast.Ident)
				if pkg == nil || pkg.Obj != nil {
					return true
				}
				if pkg.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s reads the clock", fset.Position(n.Pos()))
				}
				if pkg.Name == "rand" && !slices.Contains(generators, n.Sel.Name) {
					t.Errorf("%s draws from the global source", fset.Position(n.Pos()))
				}
			}
			return true
		})
		for _, decl := range f.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
				t.Errorf("%s declares a variable of the package", fset.Position(g.Pos()))
			}
		}
	})
}

// testKits draw problems and check answers for the tests of several packages.
var testKits = []string{"plan/plantest"}

// eachFile visits every file of the room that is not a test.
func eachFile(t *testing.T, visit func(path string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	seen := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(testKits, filepath.ToSlash(filepath.Dir(path))) {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		seen++
		visit(path, fset, f)
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, seen, 10)
}
