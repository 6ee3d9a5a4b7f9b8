package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// document is what a declaration may hold besides variables and locals, in the order in
// which it is read and printed.
var document = block[pipelines.Document]{parts: []part[pipelines.Document]{
	many(&hardwareBlock, func(d *pipelines.Document) *[]pipelines.Hardware { return &d.Hardware }),
	many(&pipelineBlock, func(d *pipelines.Document) *[]pipelines.Pipeline { return &d.Pipelines }, streamed),
	many(&providerBlock, func(d *pipelines.Document) *[]pipelines.Provider { return &d.Providers }),
	many(&functionBlock, func(d *pipelines.Document) *[]pipelines.Function { return &d.Functions }),
	many(&poolBlock, func(d *pipelines.Document) *[]pipelines.Pool { return &d.Pools }),
	many(&clusterBlock, func(d *pipelines.Document) *[]pipelines.Cluster { return &d.Clusters }),
}}

// unknownFunction is what the language says of a function that is not there.
const unknownFunction = "Call to unknown function"

// decoder reads one declaration into its Config.
type decoder struct {
	config *Config
	ctx    *hcl.EvalContext
	path   string // of the attribute that is being read
	rules  []rule
	diags  hcl.Diagnostics
}

func (c *Config) decode(body hcl.Body, opts LoadOptions) hcl.Diagnostics {
	d := &decoder{config: c}
	schema := document.schema(body)
	schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: "variable", LabelNames: []string{"name"}}, hcl.BlockHeaderSchema{Type: "locals"})
	blocks := d.content(body, schema).Blocks.ByType()
	d.ctx = d.scope(blocks["variable"], blocks["locals"], opts)
	for _, p := range document.parts {
		for _, b := range blocks[p.header.Type] {
			p.read(d, "", b, &c.Document)
		}
	}
	for _, diag := range d.diags {
		if diag.Summary == unknownFunction {
			diag.Detail += " Functions read nothing outside of the declaration: what other programs make goes into a --var-file, which may be JSON. There are: " + strings.Join(slices.Sorted(maps.Keys(d.ctx.Functions)), ", ") + "."
		}
	}
	c.decoded = d.diags
	return d.diags
}

func (d *decoder) report(diag *hcl.Diagnostic) { d.diags = append(d.diags, diag) }

// content reads a body by its schema; what does not belong there is reported.
func (d *decoder) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(schema)
	for _, diag := range diags {
		d.nearest(diag, schema, content.Attributes)
	}
	d.diags = append(d.diags, diags...)
	return content
}

// nearest lets a suggestion name the attribute that is spelled most alike, of those that are
// not there; HCL's own names the first that is alike.
func (d *decoder) nearest(diag *hcl.Diagnostic, schema *hcl.BodySchema, there hcl.Attributes) {
	if way := wayHere(d.written(diag)); way != "" && (strings.HasPrefix(diag.Summary, "Unsupported") || strings.HasPrefix(diag.Summary, "Extraneous")) {
		diag.Detail += " " + way
		return
	}
	said, _, suggests := strings.Cut(diag.Detail, ` Did you mean "`)
	if !suggests || diag.Summary != "Unsupported argument" {
		return
	}
	var names []string
	for _, a := range schema.Attributes {
		if there[a.Name] == nil {
			names = append(names, a.Name)
		}
	}
	diag.Detail = said + pipelines.Suggest(d.written(diag), names)
}

// written is what is in a file where a finding is.
func (d *decoder) written(diag *hcl.Diagnostic) string {
	if diag.Subject == nil || d.config.Files[diag.Subject.Filename] == nil {
		return ""
	}
	return strings.Trim(string(diag.Subject.SliceBytes(d.config.Files[diag.Subject.Filename].Bytes)), `"`)
}

// wayHere reports how that is done here which people know by a name from Terraform.
func wayHere(name string) string {
	return map[string]string{
		"count":      "Several of a block are made by for_each, as in for_each = range(2); on how many devices a module runs is found by planning.",
		"depends_on": "What comes before a module follows from what it reads: its inputs, when and gather.",
		"lifecycle":  "New executors are ready before old ones stop, always; how a change is tried first is said by an update block.",
		"dynamic":    "Write for_each into the block itself.",
		"module":     "Modules stand within a pipeline; what several declarations share is in files of its own, which are named together: harpagon plan shared.hcl this.hcl.",
		"source":     "What a module computes is its model, function or command; a file of a declaration is named beside the others: harpagon plan shared.hcl this.hcl.",
		"terraform":  "Nothing is said here of versions and backends; state is kept in the folder of --state.",
		"resource":   "What there is: hardware, pipeline, provider, function, pool and cluster.",
		"data":       "What there is: hardware, pipeline, provider, function, pool and cluster.",
		"sensitive":  "There are no secrets in a declaration: tokens are in environment variables that it names.",
		"nullable":   "A variable always has a value.",
	}[name]
}

func (d *decoder) place(path string, r hcl.Range) { d.config.ranges[path] = r }

// fresh reports a second block of the same name and reports whether it is new.
func (d *decoder) fresh(path, kind, name string, b *hcl.Block) bool {
	if !d.once(path, b, fmt.Sprintf("The %s %q is declared", kind, name), "") {
		return false
	}
	if !pipelines.IsName(name) {
		d.report(files.Problem("Invalid name", fmt.Sprintf("%q cannot name a %s: use letters, digits, dots, hyphens and underscores, and start with a letter or digit.", name, kind), &b.LabelRanges[0]))
	}
	return true
}

// once notes where a block stands, or reports that there is one already.
func (d *decoder) once(path string, b *hcl.Block, there, why string) bool {
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(files.Problem("Declared twice", fmt.Sprintf("%s already at %s%s.", there, earlier, why), &b.DefRange))
		return false
	}
	d.place(path, b.DefRange)
	return true
}

// read is the content of a file that an attribute names, kept for the snippets of
// diagnostics. Where it cannot be read, hint says what such a file is.
func (d *decoder) read(path string, a *hcl.Attribute, what, hint string) ([]byte, bool) {
	src, err := osutil.ReadFile(path, osutil.MaxText)
	if err != nil {
		d.report(files.Problem("Missing "+what, fmt.Sprintf("%v. %s", err, hint), ptr(a.Expr.Range())))
		return nil, false
	}
	if d.config.meter.files += len(src); d.config.meter.files > maxFiles {
		d.report(files.Problem(tooComplex, fmt.Sprintf("The files that a declaration names have %d bytes together at most, each as often as it is named.", maxFiles), ptr(a.Expr.Range())))
		return nil, false
	}
	d.config.Files[path] = &hcl.File{Bytes: src}
	return src, true
}

func ptr[T any](v T) *T { return &v }
