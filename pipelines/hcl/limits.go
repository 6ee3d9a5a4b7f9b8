package hcl

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/harpagon/harpagon/pipelines/files"
)

// Limits of what a declaration may ask of the machine that reads it. They are
// far beyond what people write, and keep a file of 4 MiB from taking all memory,
// hours, or the stack.
const (
	maxDepth     = 100        // brackets, blocks and templates in one another
	maxOperators = 1000       // in one expression
	maxValue     = 1 << 18    // one value: bytes of its strings, and its parts
	maxWork      = 16 << 20   // all of a declaration, in the same units
	loopWork     = 256        // what one turn of a loop costs, in the same units
	partWork     = 4          // what a part of a list or object counts
	maxWidth     = 4          // digits of a width in format
	maxFiles     = 128 << 20  // bytes of the files that a declaration names, each as often as it is named
	manyBits     = 1 << 12    // of a number that is long when written out
	bitsPerDigit = 10. / 3.01 // of a number that is written out
)

// tooComplex is the summary of findings about these limits.
const tooComplex = "Too complex"

// checkNesting looks at the tokens of a file, before it is parsed: parsing and
// evaluating go as deep as it does.
func checkNesting(src []byte, name string) hcl.Diagnostics {
	tokens, diags := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil // parsing says it better
	}
	var open []bool // whether each bracket is that of a block's body
	operators := 0
	previous := hclsyntax.TokenNewline
	for _, t := range tokens {
		inBody := len(open) == 0 || open[len(open)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			block := t.Type == hclsyntax.TokenOBrace && inBody && (previous == hclsyntax.TokenIdent || previous == hclsyntax.TokenCQuote)
			if open = append(open, block); len(open) > maxDepth {
				return hcl.Diagnostics{files.Problem(tooComplex, fmt.Sprintf("Brackets, blocks and templates stand in one another at most %d deep.", maxDepth), ptr(t.Range))}
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			open = open[:max(len(open)-1, 0)]
		case hclsyntax.TokenNewline:
			if inBody {
				operators = 0
			}
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenBang, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			if operators++; operators > maxOperators {
				return hcl.Diagnostics{files.Problem(tooComplex, fmt.Sprintf("An expression has at most %d operators.", maxOperators), ptr(t.Range))}
			}
		}
		previous = t.Type
	}
	return nil
}

// meter counts the work of evaluating a declaration.
type meter struct {
	spent int
	told  bool // that it is too much, by a loop or template
	files int  // bytes
}

// spend counts a value, and reports what is wrong when it, or all work so far, is
// too much.
func (m *meter) spend(v cty.Value) error {
	n := extent(v, maxValue)
	if n > maxValue {
		return fmt.Errorf("a value has more than %d parts and characters", maxValue)
	}
	if m.spent += 1 + n; m.spent > maxWork {
		return fmt.Errorf("evaluating the declaration takes too much work; write fewer or shorter lists and loops")
	}
	return nil
}

// extent is the bytes and parts of a value; more than most as soon as it is
// known to be more.
func extent(v cty.Value, most int) int {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return 1
	}
	switch t := v.Type(); {
	case t == cty.String:
		return 1 + len(v.AsString())
	case t == cty.Number:
		if bits := v.AsBigFloat().MantExp(nil); bits > manyBits || bits < -manyBits {
			return int(float64(max(bits, -bits)) / bitsPerDigit)
		}
		return 1
	case t.IsCollectionType() || t.IsTupleType() || t.IsObjectType():
		n := 1
		for each := v.ElementIterator(); n <= most && each.Next(); {
			_, part := each.Element()
			n += partWork + extent(part, most-n)
		}
		return n
	}
	return 1
}

// metered is an expression that is evaluated often, or whose value is put into
// others. Its inner expression is in parentheses, so that walks over the
// tree find it.
type metered struct {
	hclsyntax.Expression
	meter *meter
	work  int // of evaluating it once, besides its value
}

func (e *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if e.meter.spent += e.work; e.meter.spent > maxWork {
		if e.meter.told { // a finding for every turn of a loop would be the next flood
			return cty.DynamicVal, nil
		}
		e.meter.told = true
		return cty.DynamicVal, e.tooMuch(e.meter.spend(cty.True))
	}
	v, diags := e.Expression.Value(ctx)
	if diags.HasErrors() {
		return v, diags
	}
	if err := e.meter.spend(v); err != nil {
		return cty.DynamicVal, e.tooMuch(err)
	}
	return v, diags
}

func (e *metered) tooMuch(err error) hcl.Diagnostics {
	return hcl.Diagnostics{files.Problem(tooComplex, "This is not evaluated: "+err.Error()+".", ptr(e.Range()))}
}

// watch meters loops and templates below a node.
func (m *meter) watch(node hclsyntax.Node) {
	wrap := func(e hclsyntax.Expression, work int) hclsyntax.Expression {
		if e == nil {
			return nil
		}
		return &metered{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, m, work}
	}
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
		case *hclsyntax.ForExpr:
			e.KeyExpr, e.ValExpr, e.CondExpr = wrap(e.KeyExpr, 0), wrap(e.ValExpr, loopWork), wrap(e.CondExpr, loopWork)
		case *hclsyntax.SplatExpr:
			e.Each = wrap(e.Each, loopWork)
		case *hclsyntax.TemplateExpr:
			for i, part := range e.Parts {
				if _, literal := part.(*hclsyntax.LiteralValueExpr); !literal {
					e.Parts[i] = wrap(part, 1)
				}
			}
		}
		return nil
	})
}

// limited is a function whose arguments and result are metered.
func (m *meter) limited(name string, f function.Function) function.Function {
	check := func(args []cty.Value) error {
		for _, a := range args {
			if err := m.spend(a); err != nil {
				return err
			}
		}
		if grown(name, args) > maxValue {
			return fmt.Errorf("its result would have more than %d characters", maxValue)
		}
		return nil
	}
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.DynamicPseudoType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			if err == nil {
				err = m.spend(v)
			}
			return v, err
		},
	})
}

// grown is how long the result of a function that makes more of its arguments
// can be, before it is made; 0 for others.
func grown(name string, args []cty.Value) int {
	text := func(i int) (string, bool) {
		if i >= len(args) || args[i].IsMarked() || !args[i].IsKnown() || args[i].IsNull() || args[i].Type() != cty.String {
			return "", false
		}
		return args[i].AsString(), true
	}
	first, ok := text(0)
	if !ok {
		return 0
	}
	switch name {
	case "join":
		n := 0
		for _, a := range args[1:] {
			n += extent(a, maxValue)
		}
		return n * len(first)
	case "replace":
		old, _ := text(1)
		fresh, _ := text(2)
		return len(first) + strings.Count(first, old)*len(fresh)
	case "format":
		digits := 0
		for _, r := range first {
			if digits++; r < '0' || r > '9' {
				digits = 0
			}
			if digits > maxWidth {
				return maxValue + 1
			}
		}
	}
	return 0
}
