package hcl

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines/files"
)

// codec reads a kind of value from an attribute, and prints it.
type codec[V any] struct {
	read  func(d *decoder, a *hcl.Attribute, to *V)
	print func(V) hclwrite.Tokens // nil where there is nothing to say
}

// attribute is a row of the table of a block that declares a T: all that is known of one
// attribute. What is read, printed, suggested and documented is read off the rows.
type attribute[T any] struct {
	name string
	must bool
	note string // of the reference, beside the name
	doc  string // of the reference; 'x' stands for code. Empty: that of the row above is for both

	read  func(d *decoder, a *hcl.Attribute, to *T)
	print func(of *T, empty bool) hclwrite.Tokens // empty: of an empty value, too
	when  func(of *T) bool                        // reports whether it is printed; nil: where it is required or not empty
}

// attr is an attribute whose value is a field of T.
func attr[T, V any](name string, c codec[V], field func(*T) *V, doc string) attribute[T] {
	return attribute[T]{
		name: name, doc: doc,
		read: func(d *decoder, a *hcl.Attribute, to *T) { c.read(d, a, field(to)) },
		print: func(of *T, empty bool) hclwrite.Tokens {
			v := *field(of)
			if !empty && isEmpty(reflect.ValueOf(v)) {
				return nil
			}
			return c.print(v)
		},
	}
}

func isEmpty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

func (a attribute[T]) required() attribute[T] {
	a.must = true
	return a.noted("required")
}

func (a attribute[T]) noted(note string) attribute[T] {
	a.note = note
	return a
}

func (a attribute[T]) printedWhen(when func(*T) bool) attribute[T] {
	a.when = when
	return a
}

func (a attribute[T]) tokens(of *T) hclwrite.Tokens {
	if a.when != nil && !a.when(of) {
		return nil
	}
	return a.print(of, a.must || a.when != nil)
}

// block is what a block that declares a T may say.
type block[T any] struct {
	kind       string // as it is written
	title      string // in the reference, where kind alone is not enough
	notes      string // the heading of the notes of its attributes
	attributes []attribute[T]
	parts      []part[T]

	name   func(*T) *string
	start  func(to *T)                                                    // before its attributes are read
	finish func(d *decoder, from *hcl.Block, attrs hcl.Attributes, to *T) // before its parts are read
}

// part is a kind of block within a block that declares a T.
type part[T any] struct {
	header    hcl.BlockHeaderSchema
	unnamed   bool   // of its blocks one may have no name
	note, doc string // of the reference; no row without them
	read      func(d *decoder, path string, b *hcl.Block, to *T)
	print     func(body *hclwrite.Body, of *T)
	reference func(all map[string]string)
}

func (p part[T]) documented(note, doc string) part[T] {
	p.note, p.doc = note, doc
	return p
}

// many are blocks with a name each. joined is called with each that was read, before it
// joins the others.
func many[T, P any](b *block[P], field func(*T) *[]P, joined ...func(d *decoder, attrs hcl.Attributes, whole *T, p *P)) part[T] {
	return part[T]{
		header: hcl.BlockHeaderSchema{Type: b.kind, LabelNames: []string{"name"}},
		read: func(d *decoder, path string, from *hcl.Block, to *T) {
			d.each(from, b.repeats(), func(name string) {
				path := within(path, from.Type+"."+name)
				if !d.fresh(path, from.Type, name, from) {
					return
				}
				var p P
				*b.name(&p) = name
				attrs := b.read(d, path, from, &p)
				for _, join := range joined {
					join(d, attrs, to, &p)
				}
				*field(to) = append(*field(to), p)
			})
		},
		print: func(body *hclwrite.Body, of *T) {
			all := *field(of)
			for i := range all {
				body.AppendNewline()
				b.print(body.AppendNewBlock(b.kind, []string{*b.name(&all[i])}).Body(), &all[i])
			}
		},
		reference: b.reference,
	}
}

// one is a block without a name that stands at place within its T, once. there and why
// say what is wrong with a second.
func one[T, P any](b *block[P], field func(*T) *P, place, there, why string) part[T] {
	return part[T]{
		header: hcl.BlockHeaderSchema{Type: b.kind},
		read: func(d *decoder, path string, from *hcl.Block, to *T) {
			if path += place; d.once(path, from, there, why) {
				b.read(d, path, from, field(to))
			}
		},
		print:     func(body *hclwrite.Body, of *T) { b.printAny(body, nil, field(of)) },
		reference: b.reference,
	}
}

// oneOrMany are blocks of which a T has one without a name, or several with a name each.
func oneOrMany[T, P any](b *block[P], single func(*T) *P, several func(*T) *[]P, place, there, why string) part[T] {
	one, many := one(b, single, place, there, why), many(b, several)
	return part[T]{
		header: many.header, unnamed: true,
		read: func(d *decoder, path string, from *hcl.Block, to *T) {
			if len(from.Labels) == 0 {
				one.read(d, path, from, to)
			} else {
				many.read(d, path, from, to)
			}
		},
		print: func(body *hclwrite.Body, of *T) {
			one.print(body, of)
			many.print(body, of)
		},
		reference: b.reference,
	}
}

// headerIn is the header of blocks in a body: without names where these may be left out, and none has one.
func (p *part[T]) headerIn(body hcl.Body) hcl.BlockHeaderSchema {
	if !p.unnamed {
		return p.header
	}
	reads := func(h hcl.BlockHeaderSchema) bool {
		_, _, diags := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{h}})
		return !diags.HasErrors()
	}
	if bare := (hcl.BlockHeaderSchema{Type: p.header.Type}); !reads(p.header) && reads(bare) {
		return bare
	}
	return p.header
}

func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// repeats reports whether for_each may make several of such a block.
func (b *block[T]) repeats() bool {
	return slices.ContainsFunc(b.attributes, func(a attribute[T]) bool { return a.name == forEachName })
}

func (b *block[T]) schema(body hcl.Body) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range b.attributes {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.name, Required: a.must})
	}
	for _, p := range b.parts {
		s.Blocks = append(s.Blocks, p.headerIn(body))
	}
	return s
}

// read reads the block that stands at path.
func (b *block[T]) read(d *decoder, path string, from *hcl.Block, to *T) hcl.Attributes {
	content := d.content(from.Body, b.schema(from.Body))
	attrs := content.Attributes
	for name, a := range attrs {
		attrs[name] = d.native(a)
		d.place(path+"."+name, a.Expr.Range())
	}
	if b.start != nil {
		b.start(to)
	}
	for _, row := range b.attributes {
		if a := attrs[row.name]; a != nil {
			d.path = path + "." + row.name
			row.read(d, a, to)
		}
	}
	d.path = path
	if b.finish != nil {
		b.finish(d, from, attrs, to)
	}
	b.readParts(d, path, content.Blocks, to)
	return attrs
}

func (b *block[T]) readParts(d *decoder, path string, blocks hcl.Blocks, to *T) {
	for _, inner := range blocks {
		for _, p := range b.parts {
			if p.header.Type == inner.Type {
				p.read(d, path, inner, to)
			}
		}
	}
}

func (b *block[T]) print(body *hclwrite.Body, of *T) {
	for _, a := range b.attributes {
		if tokens := a.tokens(of); tokens != nil {
			body.SetAttributeRaw(a.name, tokens)
		}
	}
	for _, p := range b.parts {
		p.print(body, of)
	}
}

// printAny prints the block where there is anything to say.
func (b *block[T]) printAny(body *hclwrite.Body, labels []string, of *T) {
	inner := hclwrite.NewBlock(b.kind, labels)
	if b.print(inner.Body(), of); len(inner.Body().Attributes()) > 0 {
		body.AppendNewline()
		body.AppendBlock(inner)
	}
}

// Reference is what each kind of block may say, as a table in Markdown: the reference in
// docs.
func Reference() map[string]string {
	all := map[string]string{}
	for _, p := range document.parts {
		p.reference(all)
	}
	return all
}

func (b *block[T]) reference(all map[string]string) {
	type row struct{ names, note, doc string }
	rows := []row{{"attribute", b.notes, "meaning"}}
	for _, a := range b.attributes {
		name := "`" + a.name + "`"
		if a.doc == "" {
			rows[len(rows)-1].names += ", " + name
		} else {
			rows = append(rows, row{name, a.note, a.doc})
		}
	}
	for _, p := range b.parts {
		if p.reference(all); p.doc != "" {
			rows = append(rows, row{"`" + p.header.Type + "`", p.note, p.doc})
		}
	}
	var text strings.Builder
	for i, r := range rows {
		if i == 1 {
			text.WriteString("|---|---|---|\n")
		}
		for _, cell := range []string{r.names, r.note, r.doc} {
			text.WriteString(strings.TrimSuffix("| "+code(cell), " ") + " ")
		}
		text.WriteString("|\n")
	}
	all[cmp.Or(b.title, b.kind)] = text.String()
}

// quotedCode is 'x' in the text of a row: an apostrophe stands behind a letter.
var quotedCode = regexp.MustCompile(`(^|[\s(])'([^']+)'`)

func code(text string) string { return quotedCode.ReplaceAllString(text, "$1`$2`") }

// forEachName is the attribute that makes several blocks of one.
const forEachName = "for_each"

// forEach is a row of the blocks that it may make several of. It is read before the block is.
func forEach[T any]() attribute[T] {
	return attribute[T]{
		name: forEachName, read: func(*decoder, *hcl.Attribute, *T) {}, print: func(*T, bool) hclwrite.Tokens { return nil },
		doc: `a list or object: one block for each of its elements: [for_each](../reference/expressions.md#for_each-several-of-a-block)`,
	}
}

// each reads a block once, or once for each of what its for_each lists.
func (d *decoder) each(b *hcl.Block, repeats bool, read func(name string)) {
	var a *hcl.Attribute
	if repeats {
		content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: forEachName}}}) // faults are found when it is read
		a = content.Attributes[forEachName]
	}
	if a == nil {
		read(b.Labels[0])
		return
	}
	const hint = `an object, or a list of names, such as ["left", "right"] or range(10)`
	all, ok := d.value(d.native(a), cty.DynamicPseudoType, hint)
	if !ok {
		return
	}
	if !all.CanIterateElements() || all.LengthInt() == 0 {
		d.report(files.Problem("Nothing to repeat", fmt.Sprintf("The value of %s must be %s, with something in it.", forEachName, hint), ptr(a.Expr.Range())))
		return
	}
	around := d.ctx
	defer func() { d.ctx = around }()
	named := all.Type().IsObjectType() || all.Type().IsMapType()
	for i := all.ElementIterator(); i.Next(); {
		key, value := i.Element()
		if !named {
			key = value
		}
		name := nameOf(key)
		if name == "" {
			d.wrong(a, fmt.Sprintf("The value of %s must be %s.", forEachName, hint))
			return
		}
		d.ctx = around.NewChild()
		d.ctx.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(name), "value": value})}
		read(oneOf(b.Labels[0], name))
	}
}

// oneOf is the name of a block that for_each has made.
func oneOf(label, key string) string { return label + "-" + key }
