package hcl

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var poolBlock = block[pipelines.Pool]{
	kind: "pool",
	attributes: slices.Concat(
		together("what answers queries, as in a [module](../reference/modules.md): an ONNX file, an address, or a command. Without any the pool is emulated by its profile",
			append(networkRows(func(p *pipelines.Pool) network { return networkOf(&p.Network) }),
				attr("batch_axis", batchAxis, func(p *pipelines.Pool) *map[string]int { return &p.Network.BatchAxis }, ""))...),
		[]attribute[pipelines.Pool]{
			attr("profile", file, func(p *pipelines.Pool) *string { return &p.ProfileFile },
				`left out of a pool with a model, which is then measured where it runs (below). CSV with 'hardware,batch,duration_ms'; the batch is the size of a query. Between two measured sizes a straight line counts`),
			attr("sizes", file, func(p *pipelines.Pool) *string { return &p.SizesFile },
				`CSV with 'size,weight': how often queries have which size. Weights are relative. Left out, all measured sizes that the base serves in time are taken to be alike frequent until the gateway has seen the queries that come`),
			attr("slo", duration, func(p *pipelines.Pool) *time.Duration { return &p.SLO },
				`latency objective of every query`).required(),
			attr("budget", number, func(p *pipelines.Pool) *float64 { return &p.Budget },
				`money per hour`).required(),
			attr("base", text, func(p *pipelines.Pool) *string { return &p.Base },
				`the kind of hardware that meets the objective at every size; a pool has at least one instance of it`).required(),
			attr("hardware", texts, func(p *pipelines.Pool) *[]string { return &p.Hardware },
				`kinds that may be in the pool; left out, all that the profile has points on`),
			attr("arrivals", text, func(p *pipelines.Pool) *string { return &p.Arrivals },
				`'even' (the default), 'poisson' or 'gamma:SHAPE'; what goodput is simulated with`),
			attr("overhead", duration, func(p *pipelines.Pool) *time.Duration { return &p.Overhead },
				`what a query takes besides its profile, the way to the instance and the dispatcher; '"0s"' unless given. Every latency is planned with it`),
			attr("measure", unless, func(p *pipelines.Pool) *bool { return &p.Learned },
				`'false' for a pool with a model and without a profile that is to serve at once: nothing is measured, what queries take is learned from them (below)`),
		},
	),
	parts: []part[pipelines.Pool]{
		planOf(func(p *pipelines.Pool) *pipelines.Planning { return &p.Plan }).
			documented("", `a block with the 'policy' that plans the pool: 'plan { policy = "kairos" }'; see [plan](../reference/hcl.md#plan-how-a-service-is-planned)`),
		matchingPart,
		many(&inputBlock, func(p *pipelines.Pool) *[]pipelines.Port { return &p.Inputs }, sized).
			documented("", `a tensor of a query: 'datatype', and the 'shape' of one item; the size of the query comes before it (and may be written out as -1). The name is that of the network's input`),
		many(&poolOutputBlock, func(p *pipelines.Pool) *[]pipelines.Output { return &p.Outputs }).
			documented("", `'value = model.NAME', or nothing where the network's output has the same name`),
	},
	name:   func(p *pipelines.Pool) *string { return &p.Name },
	finish: (*decoder).poolFiles,
}

// poolFiles reads the files that a pool names.
func (d *decoder) poolFiles(_ *hcl.Block, attrs hcl.Attributes, p *pipelines.Pool) {
	if p.ProfileFile != "" {
		d.poolProfile(p, attrs["profile"])
	}
	if p.SizesFile != "" {
		d.poolSizes(p, attrs["sizes"])
	}
}

func (d *decoder) poolProfile(p *pipelines.Pool, a *hcl.Attribute) {
	src, ok := d.read(p.ProfileFile, a, "profile", "The profile of a pool has the duration of queries by their size: hardware,batch,duration_ms.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(p.ProfileFile, src)
	for _, diag := range diags {
		if diag.Severity == hcl.DiagError { // noise matters to batches that could be padded, not to queries
			d.diags = append(d.diags, diag)
		}
	}
	p.Profile.Points = points
}

func (d *decoder) poolSizes(p *pipelines.Pool, a *hcl.Attribute) {
	src, ok := d.read(p.SizesFile, a, "sizes", "A file of sizes has a weight for each size of queries: size,weight.")
	if !ok {
		return
	}
	mix, lines, diags := files.ReadSizesAt(p.SizesFile, src)
	d.diags = append(d.diags, diags...)
	p.Sizes = mix
	for size, at := range lines {
		d.place(d.path+".sizes."+strconv.Itoa(size), at)
	}
}

// sized puts the size of a query before the shape of one item, where it is not written.
func sized(_ *decoder, _ hcl.Attributes, _ *pipelines.Pool, in *pipelines.Port) {
	if len(in.Shape) == 0 || in.Shape[0] != -1 {
		in.Shape = append([]int64{-1}, in.Shape...)
		if in.Typical != nil {
			in.Typical = append([]int64{1}, in.Typical...)
		}
	}
}

var poolOutputBlock = block[pipelines.Output]{
	kind: "output", title: "output of a pool",
	attributes: []attribute[pipelines.Output]{
		attr("value", modelOutput, func(o *pipelines.Output) *string { return &o.From.Port },
			`'model.NAME'; the network's output of the same name without it`).
			printedWhen(func(*pipelines.Output) bool { return true }),
	},
	name:  func(o *pipelines.Output) *string { return &o.Name },
	start: func(o *pipelines.Output) { o.From.Port = o.Name },
}

// modelOutput is model.NAME, or model["NAME"].
var modelOutput = named("model", "Not an output", "Refer to an output of the pool's model as model.NAME, or leave value out where the output has the same name.")

// named is a reference of two names, of which the first is always the same.
func named(root, summary, detail string) codec[string] {
	return codec[string]{
		func(d *decoder, a *hcl.Attribute, to *string) {
			names := d.namesOf(a.Expr)
			if len(names) != 2 || names[0] != root {
				d.report(files.Problem(summary, detail, ptr(a.Expr.Range())))
				names = []string{root, ""}
			}
			*to = names[1]
		},
		func(name string) hclwrite.Tokens { return reference(root, name) },
	}
}

var matchingBlock = block[pipelines.Matching]{
	kind: "dispatch", title: `dispatch "matching"`,
	attributes: []attribute[pipelines.Matching]{
		attr("coefficients", text, func(m *pipelines.Matching) *string { return &m.Coefficients },
			`what weighs the seconds of an instance: '"plan"' (default) or '"paper"'`),
		attr("width", width, func(m *pipelines.Matching) *int { return &m.Width },
			`how many waiting queries a decision looks at for each instance, or '"all"' queries and all instances, as the paper writes it`),
	},
}

// matchingPart has the policy for a name.
var matchingPart = part[pipelines.Pool]{
	header: hcl.BlockHeaderSchema{Type: matchingBlock.kind, LabelNames: []string{"policy"}},
	doc:    `a block 'dispatch "matching"', below`,
	read: func(d *decoder, path string, b *hcl.Block, to *pipelines.Pool) {
		path += "." + b.Type
		policy := b.Labels[0]
		if !d.fresh(path+"."+policy, b.Type, b.Labels[0], b) {
			return
		}
		matchingBlock.read(d, path, b, &to.Matching)
		if policy != "matching" {
			d.report(files.Problem("Unknown dispatch", fmt.Sprintf("A pool is served with dispatch \"matching\", not %q; others are for harpagon simulate.", policy), &b.LabelRanges[0]))
		}
	},
	print: func(body *hclwrite.Body, of *pipelines.Pool) {
		matchingBlock.printAny(body, []string{"matching"}, &of.Matching)
	},
	reference: matchingBlock.reference,
}

var width = codec[int]{
	func(d *decoder, a *hcl.Attribute, to *int) {
		if v, diags := a.Expr.Value(d.ctx); !diags.HasErrors() && v.Type() == cty.String && v.IsWhollyKnown() && !v.IsNull() && v.AsString() == "all" {
			*to = pipelines.WidthAll
			return
		}
		if d.integer(a, to); *to < 1 {
			d.report(files.Problem("Invalid width", "The width is how many waiting queries a decision looks at for each instance: a whole number from 1, or \"all\".", ptr(a.Expr.Range())))
		}
	},
	func(n int) hclwrite.Tokens {
		if n == pipelines.WidthAll {
			return text.print("all")
		}
		return integer.print(n)
	},
}

var providerBlock = block[pipelines.Provider]{
	kind: "provider",
	attributes: []attribute[pipelines.Provider]{
		attr("vcpu_second", number, func(p *pipelines.Provider) *float64 { return &p.VCPUSecond },
			`money per vCPU and second, per GB of GPU memory and second`).noted("with the grid"),
		attr("gpu_gb_second", number, func(p *pipelines.Provider) *float64 { return &p.GPUGBSecond }, ""),
		attr("invocation", number, func(p *pipelines.Provider) *float64 { return &p.Invocation },
			`money per call`).required(),
		attr("billing", duration, func(p *pipelines.Provider) *time.Duration { return &p.Billing },
			`every call's time is rounded up to whole multiples; '"0s"', the default, bills it as it is`),
		attr("vcpu", grid, func(p *pipelines.Provider) *pipelines.Grid { return &p.VCPU },
			`the sizes on offer; without a grid there are no such functions`).noted("one of them"),
		attr("gpu_memory", grid, func(p *pipelines.Provider) *pipelines.Grid { return &p.GPUMemory }, ""),
		attr("gpu_slice", duration, func(p *pipelines.Provider) *time.Duration { return &p.GPUSlice },
			`the time that a GPU gives a function per GB and round; otherwise the profile's, or 2 ms`),
		attr("overhead", duration, func(p *pipelines.Provider) *time.Duration { return &p.Overhead },
			`what a call takes at most besides the profile, the network there and back and the gateway; '"0s"' unless given. Every maximum latency is planned with it, and it is not billed`),
		attr("url", text, func(p *pipelines.Provider) *string { return &p.URL },
			`where functions are called: a template with '{function}', '{platform}' ('cpu' or 'gpu'), '{size}' (vCPUs, or GB of GPU memory), '{vcpu}', '{gpu_memory}', '{batch}' and '{provider}'`).noted("to be served"),
		attr("timeout", duration, func(p *pipelines.Provider) *time.Duration { return &p.Timeout },
			`the longest that a call may take; '"1m"' unless given`),
		attr("attempts", integer, func(p *pipelines.Provider) *int { return &p.Attempts },
			`how often a call may be sent in all; 3 unless given, 1 never sends one again`),
		attr("concurrency", integer, func(p *pipelines.Provider) *int { return &p.Concurrency },
			`calls of one function that may run at once; 1000 unless given`),
		attr("token_variable", text, func(p *pipelines.Provider) *string { return &p.TokenVariable },
			`name of the environment variable, where the gateway runs, whose value is sent as 'Authorization: Bearer'; the token itself is never in a file`),
		attr("memory_gb_second", number, func(p *pipelines.Provider) *float64 { return &p.MemoryGBSecond },
			`money per GB of main memory and second, and a grid: the GB that a CPU function has for each vCPU, at least and at most, and the step of sizes. Needs 'memory' in the profile`),
		attr("memory_per_vcpu", grid, func(p *pipelines.Provider) *pipelines.Grid { return &p.MemoryPerVCPU }, ""),
		attr("gpu_billing", duration, func(p *pipelines.Provider) *time.Duration { return &p.GPUBilling },
			`what 'billing' is, for GPU functions where they are billed otherwise`),
		attr("gpu_vcpu_per_gb", number, func(p *pipelines.Provider) *float64 { return &p.GPUVCPUPerGB },
			`vCPUs that come with a GB of GPU memory, and are paid`),
		attr("gpu_latency_factor", number, func(p *pipelines.Provider) *float64 { return &p.GPULatencyFactor },
			`of the longest latency on a part of a GPU; 1 unless given`),
		attr("manage", boolean, func(p *pipelines.Provider) *bool { return &p.Manage },
			`'true' has functions created before they are called and deleted after, by the hook at that address, '/functions' on the host of 'url' unless given; see [below](#functions-that-are-created)`),
		attr("manage_url", text, func(p *pipelines.Provider) *string { return &p.ManageURL }, ""),
	},
	name: func(p *pipelines.Provider) *string { return &p.Name },
}

// grid is { min = 0.05, max = 16, step = 0.05 }, on one line, least first.
var grid = codec[pipelines.Grid]{
	func(d *decoder, a *hcl.Attribute, to *pipelines.Grid) {
		fields := map[string]*float64{"min": &to.Min, "max": &to.Max, "step": &to.Step}
		pairs, diags := hcl.ExprMap(a.Expr)
		if diags.HasErrors() { // not written out here: a variable or local
			kind := cty.Object(map[string]cty.Type{"min": cty.Number, "max": cty.Number, "step": cty.Number})
			if v, ok := d.value(a, kind, "a grid: { min = 1, max = 24, step = 1 }"); ok {
				for name, field := range fields {
					if x := v.GetAttr(name); !x.IsNull() {
						*field, _ = x.AsBigFloat().Float64()
					}
				}
			}
			return
		}
		for _, pair := range pairs {
			name := d.key(pair.Key)
			field, ok := fields[name]
			if !ok {
				d.report(files.Problem("Not part of a grid", fmt.Sprintf("A grid has min, max and step, each once; %q is none of them or there twice.", name), ptr(pair.Key.Range())))
				continue
			}
			delete(fields, name)
			d.place(d.path+"."+name, pair.Value.Range())
			d.number(&hcl.Attribute{Name: name, Expr: pair.Value}, field)
		}
		for _, name := range []string{"min", "max", "step"} {
			if fields[name] != nil {
				d.report(files.Problem("Incomplete grid", fmt.Sprintf("The grid of %s has no %s: write { min = 1, max = 24, step = 1 }.", a.Name, name), ptr(a.Expr.Range())))
			}
		}
	},
	func(g pipelines.Grid) hclwrite.Tokens {
		var tokens hclwrite.Tokens
		for _, part := range []struct {
			text  string
			value float64
		}{{"{ min = ", g.Min}, {", max = ", g.Max}, {", step = ", g.Step}} {
			tokens = append(append(tokens, hclwrite.TokensForIdentifier(part.text)...), number.print(part.value)...)
		}
		return append(tokens, hclwrite.TokensForIdentifier(" }")...)
	},
}

var functionBlock = block[pipelines.Function]{
	kind: "function",
	attributes: []attribute[pipelines.Function]{
		attr("provider", provider, func(f *pipelines.Function) *string { return &f.Provider },
			`'provider.NAME'`).required(),
		attr("profile", file, func(f *pipelines.Function) *string { return &f.ProfileFile },
			`a JSON file with the model's coefficients`).required(),
		attr("model", file, func(f *pipelines.Function) *string { return &f.Model },
			`an ONNX file, for the stand-in of a provider, which then computes answers with it`),
	},
	parts: []part[pipelines.Function]{
		planOf(func(f *pipelines.Function) *pipelines.Planning { return &f.Plan }).
			documented("", `a block with the 'policy' that plans the function: 'plan { policy = "harmonybatch" }'; see [plan](../reference/hcl.md#plan-how-a-service-is-planned)`),
		many(&inputBlock, func(f *pipelines.Function) *[]pipelines.Port { return &f.Inputs }).
			documented("", `'datatype' and 'shape' of one request, as for a pipeline; without any, what the provider's metadata says, and where that says nothing, requests are passed on as they come`),
		many(&applicationBlock, func(f *pipelines.Function) *[]pipelines.Application { return &f.Applications }).
			documented("one or more", `who calls it, below`),
	},
	name: func(f *pipelines.Function) *string { return &f.Name },
	finish: func(d *decoder, _ *hcl.Block, attrs hcl.Attributes, f *pipelines.Function) {
		if f.ProfileFile == "" {
			return
		}
		src, ok := d.read(f.ProfileFile, attrs["profile"], "profile", "The profile of a function is a JSON file of its model's coefficients.")
		if !ok {
			return
		}
		profile, diags := files.ReadFunctionProfile(f.ProfileFile, src)
		d.diags = append(d.diags, diags...)
		if !diags.HasErrors() {
			f.Profile = profile
		}
	},
}

// provider is provider.NAME, or provider["NAME"].
var provider = named("provider", "Not a reference", "Refer to a provider block as provider.NAME, without quotes.")

var applicationBlock = block[pipelines.Application]{
	kind: "application",
	attributes: []attribute[pipelines.Application]{
		attr("slo", duration, func(a *pipelines.Application) *time.Duration { return &a.SLO },
			`latency objective, counted from a request's arrival`).required(),
		attr("rate", number, func(a *pipelines.Application) *float64 { return &a.Rate },
			`requests per second`).required(),
	},
	name: func(a *pipelines.Application) *string { return &a.Name },
}
