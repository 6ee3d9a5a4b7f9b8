package hcl

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// HCL prints a document in canonical form: reading it gives the same document
// back. Profiles are named by their file; points without one are not printed.
func HCL(doc pipelines.Document) []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	blank := false
	begin := func(kind, name string) *hclwrite.Body {
		if blank {
			body.AppendNewline()
		}
		blank = true
		return body.AppendNewBlock(kind, []string{name}).Body()
	}
	for _, h := range doc.Hardware {
		printHardware(begin("hardware", h.Name), h)
	}
	for _, p := range doc.Pipelines {
		printPipeline(begin("pipeline", p.Name), p)
	}
	for _, p := range doc.Providers {
		printProvider(begin("provider", p.Name), p)
	}
	for _, f := range doc.Functions {
		printFunction(begin("function", f.Name), f)
	}
	for _, p := range doc.Pools {
		printPool(begin("pool", p.Name), p)
	}
	for _, c := range doc.Clusters {
		printCluster(begin("cluster", c.Name), c)
	}
	return hclwrite.Format(file.Bytes())
}

func printPipeline(b *hclwrite.Body, p pipelines.Pipeline) {
	b.SetAttributeValue("slo", cty.StringVal(durationText(p.SLO)))
	b.SetAttributeValue("rate", decimal(p.Rate))
	setText(b, "arrivals", p.Arrivals)
	if p.Attainment != 0 {
		b.SetAttributeValue("attainment", decimal(math.Max(0, p.Attainment)))
	}
	if p.Headroom != nil {
		b.SetAttributeValue("headroom", cty.StringVal(pipelines.PercentText(*p.Headroom)))
	}
	setText(b, "dispatch", p.Dispatch)
	printAccuracy(b, p.Accuracy)
	printPlanning(b, p.Plan)
	printUpdate(b, p.Update)
	for _, in := range p.Inputs {
		printInput(b, in)
	}
	for _, m := range p.Modules {
		b.AppendNewline()
		printModule(b.AppendNewBlock("module", []string{m.Name}).Body(), m)
	}
	for _, o := range p.Outputs {
		b.AppendNewline()
		b.AppendNewBlock("output", []string{o.Name}).Body().SetAttributeRaw("value", refTokens(o.From))
	}
}

func printInput(b *hclwrite.Body, in pipelines.Port) {
	b.AppendNewline()
	block := b.AppendNewBlock("input", []string{in.Name}).Body()
	block.SetAttributeValue("datatype", cty.StringVal(in.Datatype))
	block.SetAttributeValue("shape", intTuple(in.Shape))
	if setText(block, "sample", in.Sample); in.Sample == "" && len(in.Typical) > 0 {
		block.SetAttributeValue("typical", intTuple(in.Typical))
	}
}

func printModule(b *hclwrite.Body, m pipelines.Module) {
	setText(b, "function", m.Function)
	printNetwork(b, pipelines.Variant{Model: m.Model, Engine: m.Engine, Command: m.Command, Files: m.Files, Accuracy: m.Accuracy, ProfileFile: m.ProfileFile})
	b.SetAttributeRaw("inputs", bindingTokens(m.Inputs))
	if m.Scatter {
		b.SetAttributeValue("fanout", decimal(m.Fanout))
	}
	if m.Rate != 0 {
		b.SetAttributeValue("rate", decimal(m.Rate))
	}
	if len(m.Hardware) > 0 {
		b.SetAttributeValue("hardware", textTuple(m.Hardware))
	}
	if len(m.Batches) > 0 {
		var sizes []int64
		for _, n := range m.Batches {
			sizes = append(sizes, int64(n))
		}
		b.SetAttributeValue("batches", intTuple(sizes))
	}
	if m.Unbatched {
		b.SetAttributeValue("batching", cty.False)
	}
	if len(m.BatchAxis) > 0 {
		b.SetAttributeRaw("batch_axis", axisTokens(m.BatchAxis))
	}
	if len(m.Parameters) > 0 {
		b.SetAttributeRaw("parameters", parameterTokens(m.Parameters))
	}
	if len(m.Typical) > 0 {
		b.SetAttributeRaw("typical", typicalTokens(m.Typical))
	}
	for _, v := range m.Variants {
		b.AppendNewline()
		printNetwork(b.AppendNewBlock("variant", []string{v.Name}).Body(), v)
	}
}

func typicalTokens(all map[string][]int64) hclwrite.Tokens {
	var pairs []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, hclwrite.ObjectAttrTokens{Name: keyTokens(name), Value: hclwrite.TokensForValue(intTuple(all[name]))})
	}
	return object(pairs)
}

func textTuple(texts []string) cty.Value {
	all := make([]cty.Value, len(texts))
	for i, s := range texts {
		all[i] = cty.StringVal(s)
	}
	return cty.TupleVal(all)
}

func setText(b *hclwrite.Body, name, text string) {
	if text != "" {
		b.SetAttributeValue(name, cty.StringVal(text))
	}
}

// decimal is the number that prints shortest and reads back the same.
func decimal(x float64) cty.Value {
	f, _, err := big.ParseFloat(strconv.FormatFloat(x, 'g', -1, 64), 10, 512, big.ToNearestEven)
	if err != nil {
		return cty.NumberFloatVal(0)
	}
	return cty.NumberVal(f)
}

func intTuple(values []int64) cty.Value {
	all := make([]cty.Value, 0, len(values))
	for _, v := range values {
		all = append(all, cty.NumberIntVal(v))
	}
	return cty.TupleVal(all)
}

// durationText prints the largest unit that keeps the number whole, and
// milliseconds below a second.
func durationText(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case d%time.Microsecond == 0:
		return strconv.FormatFloat(quantity.Millis(d), 'f', -1, 64) + "ms"
	}
	return d.String()
}

func memoryText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

func refTokens(r pipelines.Ref) hclwrite.Tokens {
	if r.Module == "" {
		return reference("input", r.Port)
	}
	return reference("module", r.Module, r.Port)
}

// reference writes names that are no plain words as indices.
func reference(names ...string) hclwrite.Tokens {
	t := hcl.Traversal{hcl.TraverseRoot{Name: names[0]}}
	for _, name := range names[1:] {
		if hclsyntax.ValidIdentifier(name) {
			t = append(t, hcl.TraverseAttr{Name: name})
		} else {
			t = append(t, hcl.TraverseIndex{Key: cty.StringVal(name)})
		}
	}
	return hclwrite.TokensForTraversal(t)
}

func bindingTokens(all []pipelines.Binding) hclwrite.Tokens {
	var pairs []hclwrite.ObjectAttrTokens
	for _, b := range all {
		value := refTokens(b.From)
		if b.IsConstant() {
			value = hclwrite.TokensForValue(ctyValue(b.Value))
		}
		pairs = append(pairs, hclwrite.ObjectAttrTokens{Name: keyTokens(b.Name), Value: value})
	}
	return object(pairs)
}

func keyTokens(name string) hclwrite.Tokens {
	if hclsyntax.ValidIdentifier(name) {
		return hclwrite.TokensForIdentifier(name)
	}
	return hclwrite.TokensForValue(cty.StringVal(name))
}

// object prints one pair on one line, and several on a line each.
func object(pairs []hclwrite.ObjectAttrTokens) hclwrite.Tokens {
	if len(pairs) > 1 {
		return hclwrite.TokensForObject(pairs)
	}
	tokens := hclwrite.Tokens{{Type: hclsyntax.TokenOBrace, Bytes: []byte("{")}}
	for _, p := range pairs {
		tokens = append(tokens, p.Name...)
		tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenEqual, Bytes: []byte(" = ")})
		tokens = append(tokens, p.Value...)
	}
	return append(tokens, &hclwrite.Token{Type: hclsyntax.TokenCBrace, Bytes: []byte("}")})
}

func axisTokens(all map[string]int) hclwrite.Tokens {
	plain := make(map[string]any, len(all))
	for name, axis := range all {
		if plain[name] = float64(axis); axis == pipelines.NoBatchAxis {
			plain[name] = noAxis
		}
	}
	return parameterTokens(plain)
}

func parameterTokens(all map[string]any) hclwrite.Tokens {
	var pairs []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, hclwrite.ObjectAttrTokens{Name: keyTokens(name), Value: hclwrite.TokensForValue(ctyValue(all[name]))})
	}
	return object(pairs)
}

// Format lays a file out in canonical style and keeps its comments. A file that
// cannot be parsed comes back as it is, with what is wrong.
func Format(filename string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos); diags.HasErrors() {
		return src, diags
	}
	return hclwrite.Format(src), nil
}

// ctyValue is a plain value as HCL prints it.
func ctyValue(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case float64:
		return decimal(v)
	case []any:
		list := make([]cty.Value, 0, len(v))
		for _, e := range v {
			list = append(list, ctyValue(e))
		}
		return cty.TupleVal(list)
	case map[string]any:
		all := make(map[string]cty.Value, len(v))
		for name, e := range v {
			all[name] = ctyValue(e)
		}
		return cty.ObjectVal(all)
	}
	if plain, err := pipelines.Plain(v); err == nil {
		return ctyValue(plain)
	}
	return cty.StringVal(strings.TrimSpace(fmt.Sprint(v))) // Builder.Build refuses it
}

// printPlanning writes the plan block, where there is anything to say.
func printPlanning(b *hclwrite.Body, p pipelines.Planning) {
	if p.IsZero() {
		return
	}
	b.AppendNewline()
	block := b.AppendNewBlock("plan", nil).Body()
	setText(block, "policy", p.Policy)
	setText(block, "cost_model", p.CostModel)
	if len(p.Without) > 0 {
		block.SetAttributeValue("without", textTuple(p.Without))
	}
	setText(block, "split", p.Split)
	setText(block, "reading", p.Reading)
	for _, one := range []struct {
		name string
		set  bool
	}{{"concurrency", p.Concurrency}, {"allow_unsound", p.AllowUnsound}} {
		if one.set {
			block.SetAttributeValue(one.name, cty.True)
		}
	}
}

// printUpdate writes the update block, where there is anything to say.
func printUpdate(b *hclwrite.Body, u pipelines.Update) {
	if u.IsZero() {
		return
	}
	b.AppendNewline()
	block := b.AppendNewBlock("update", nil).Body()
	number := func(name string, x float64) {
		if x != 0 {
			block.SetAttributeValue(name, decimal(x))
		}
	}
	number("canary", u.Canary)
	number("shadow", u.Shadow)
	if u.Hold != 0 {
		block.SetAttributeValue("hold", cty.StringVal(durationText(u.Hold)))
	}
	revert := map[string]cty.Value{}
	if u.Revert.Attainment != 0 {
		revert["attainment"] = decimal(u.Revert.Attainment)
	}
	if u.Revert.Cost != 0 {
		revert["cost"] = decimal(u.Revert.Cost)
	}
	if len(revert) > 0 {
		block.SetAttributeValue("revert", cty.ObjectVal(revert))
	}
}

func printAccuracy(b *hclwrite.Body, x float64) {
	if x != 0 {
		b.SetAttributeValue("accuracy", decimal(x))
	}
}

// printNetwork prints what a module and its variants both say of what they run.
func printNetwork(b *hclwrite.Body, v pipelines.Variant) {
	setText(b, "model", v.Model)
	setText(b, "engine", v.Engine)
	if len(v.Command) > 0 {
		b.SetAttributeValue("command", textTuple(v.Command))
	}
	if len(v.Files) > 0 {
		b.SetAttributeValue("files", textTuple(v.Files))
	}
	setText(b, "profile", v.ProfileFile)
	printAccuracy(b, v.Accuracy)
}

func printHardware(b *hclwrite.Body, h pipelines.Hardware) {
	if l := h.Listed; l.File != "" {
		setText(b, "prices", l.File)
		if l.Name != h.Name {
			setText(b, "listed_as", l.Name)
		}
		setText(b, "market", l.Market)
	} else {
		b.SetAttributeValue("price", decimal(h.Price))
		if h.Interruptions != 0 {
			b.SetAttributeValue("interruptions", decimal(h.Interruptions))
		}
	}
	if h.Recovery != 0 {
		b.SetAttributeValue("recovery", cty.StringVal(durationText(h.Recovery)))
	}
	if h.Memory > 0 {
		b.SetAttributeValue("memory", cty.StringVal(memoryText(h.Memory)))
	}
	if h.Count != 0 {
		b.SetAttributeValue("count", cty.NumberIntVal(int64(h.Count)))
	}
	if h.Cores != 0 {
		b.SetAttributeValue("cores", cty.NumberIntVal(int64(h.Cores)))
	}
}

func printCluster(b *hclwrite.Body, c pipelines.Cluster) {
	b.SetAttributeValue("hardware", cty.StringVal(c.Hardware))
	switch {
	case c.Devices == pipelines.Range{}:
	case c.Devices.Min == c.Devices.Max:
		b.SetAttributeValue("devices", cty.NumberIntVal(int64(c.Devices.Min)))
	default:
		b.SetAttributeRaw("devices", hclwrite.TokensForIdentifier(fmt.Sprintf("{ min = %d, max = %d }", c.Devices.Min, c.Devices.Max)))
	}
	setText(b, "dispatch", c.Dispatch)
	b.SetAttributeValue("pipelines", textTuple(c.Pipelines))
}
