package harpagon_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestJSONIsWrittenByName looks for values of structs with json tags whose fields are given
// by position: there a swap of two of one type compiles. For structs of other packages go
// vet looks.
func TestJSONIsWrittenByName(t *testing.T) {
	packages := map[string][]source{}
	for _, s := range sources(t) {
		packages[path.Dir(s.path)] = append(packages[path.Dir(s.path)], s)
	}
	for _, files := range packages {
		everywhere := map[string]bool{}
		for _, s := range files {
			for _, d := range s.file.Decls {
				if _, inside := d.(*ast.FuncDecl); !inside {
					tagged(d, everywhere)
				}
			}
		}
		for _, s := range files {
			for _, d := range s.file.Decls {
				here := maps.Clone(everywhere)
				tagged(d, here)
				ast.Inspect(d, func(n ast.Node) bool {
					if lit, ok := n.(*ast.CompositeLit); ok && slices.ContainsFunc(values(lit), func(l *ast.CompositeLit) bool { return byPosition(l, here) }) {
						assert.Fail(t, "a struct with json tags is written by position", "%s: write `field: value`", s.fset.Position(lit.Pos()))
					}
					return true
				})
			}
		}
	}
}

// tagged notes which of the types that are declared here have json tags.
func tagged(in ast.Node, into map[string]bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			into[spec.Name.Name] = hasJSON(spec.Type)
		}
		return true
	})
}

// values are what a literal has: itself, or those of a list whose type is left out.
func values(lit *ast.CompositeLit) []*ast.CompositeLit {
	list, ok := lit.Type.(*ast.ArrayType)
	if !ok {
		return []*ast.CompositeLit{lit}
	}
	var all []*ast.CompositeLit
	for _, e := range lit.Elts {
		if one, ok := e.(*ast.CompositeLit); ok && one.Type == nil {
			all = append(all, &ast.CompositeLit{Type: list.Elt, Elts: one.Elts})
		}
	}
	return all
}

func byPosition(lit *ast.CompositeLit, tagged map[string]bool) bool {
	name, named := lit.Type.(*ast.Ident)
	if len(lit.Elts) == 0 || !hasJSON(lit.Type) && !(named && tagged[name.Name]) {
		return false
	}
	_, keyed := lit.Elts[0].(*ast.KeyValueExpr)
	return !keyed
}

func hasJSON(of ast.Expr) bool {
	s, ok := of.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`)
	})
}
