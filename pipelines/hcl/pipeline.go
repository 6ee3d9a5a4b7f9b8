package hcl

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var pipelineBlock = block[pipelines.Pipeline]{
	kind: "pipeline",
	attributes: []attribute[pipelines.Pipeline]{
		attr("slo", duration, func(p *pipelines.Pipeline) *time.Duration { return &p.SLO },
			`end-to-end latency objective, counted from a request's arrival`).required(),
		attr("rate", number, func(p *pipelines.Pipeline) *float64 { return &p.Rate },
			`requests per second at the source; required without a 'stream' block`).printedWhen(func(p *pipelines.Pipeline) bool { return len(p.StreamKinds()) == 0 }),
		forEach[pipelines.Pipeline](),
		attr("arrivals", arrivals, func(p *pipelines.Pipeline) *string { return &p.Arrivals },
			`how requests come: '"poisson"' (default), as from many people; '"even"', as from a camera; '"gamma:SHAPE"'; '"trace:FILE"' (requests in each second). Plans for all but even ones are simulated: [simulating](../explanation/simulating.md)`).printedWhen(func(p *pipelines.Pipeline) bool { return p.Arrivals != pipelines.ArrivalsPoisson }),
		attr("attainment", attainment, func(p *pipelines.Pipeline) *float64 { return &p.Attainment },
			`share of requests to finish in time, 0 to 1: capacity is added until a simulation of these arrivals attains it. Default 0.99 where 'arrivals' are not even. '0' asks for none, and counts the items of a fan-out by their mean`),
		attr("headroom", headroom, func(p *pipelines.Pipeline) **float64 { return &p.Headroom },
			`share of the objective that plans leave free for other work of the machine: '"10%"', or '0.1'. Budgets add up to the objective less this; deadlines stay the objective. With it, durations count as in profiles; without it, as long as 95 % of measured runs took at most, where profiles have a spread: [planning](../explanation/planning.md#headroom)`),
		attr("dispatch", text, func(p *pipelines.Pipeline) *string { return &p.Dispatch },
			`which policy forms batches: `+firstIsDefault(pipelines.Dispatches(pipelines.KindPipeline))+`. The default keeps what plans promise. See [dispatch policies](../how-to/overload.md#choose-a-dispatch-policy)`),
		attr("accuracy", accuracy, func(p *pipelines.Pipeline) *float64 { return &p.Accuracy },
			`the least accuracy that variants of modules may leave, above 0 and at most 1: [variants](../how-to/variants.md)`),
	},
	parts: []part[pipelines.Pipeline]{
		planOf(func(p *pipelines.Pipeline) *pipelines.Planning { return &p.Plan }),
		one(&updateBlock, func(p *pipelines.Pipeline) *pipelines.Update { return &p.Update },
			pipelines.UpdatePath, "There is an update block", "; a pipeline has one"),
		oneOrMany(&streamBlock, func(p *pipelines.Pipeline) *pipelines.Stream { return &p.Stream }, func(p *pipelines.Pipeline) *[]pipelines.Stream { return &p.Kinds },
			pipelines.StreamPath, "There is a stream block", "; of several each has a name: stream \"cameras\" { ... }"),
		one(&overlayBlock, func(p *pipelines.Pipeline) *pipelines.Overlay { return &p.Overlay },
			pipelines.OverlayPath, "There is an overlay block", "; a pipeline has one"),
		many(&inputBlock, func(p *pipelines.Pipeline) *[]pipelines.Port { return &p.Inputs }),
		many(&moduleBlock, func(p *pipelines.Pipeline) *[]pipelines.Module { return &p.Modules }),
		many(&outputBlock, func(p *pipelines.Pipeline) *[]pipelines.Output { return &p.Outputs }),
	},
	name:  func(p *pipelines.Pipeline) *string { return &p.Name },
	start: func(p *pipelines.Pipeline) { p.Arrivals = pipelines.ArrivalsPoisson },
	finish: func(d *decoder, from *hcl.Block, attrs hcl.Attributes, p *pipelines.Pipeline) {
		d.trace(from, attrs, p)
		if attrs["rate"] == nil && !has(from.Body, streamBlock.kind) {
			d.report(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Missing required argument", Detail: `The argument "rate" is required, but no definition was found.`, Subject: ptr(from.Body.MissingItemRange())})
		}
	},
}

// has reports whether there is a block of that kind in a body, with a name or without.
func has(body hcl.Body, kind string) bool {
	parts, _, diags := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: kind}}})
	return len(parts.Blocks) > 0 || diags.HasErrors()
}

// arrivals read the name of a trace as a path.
var arrivals = codec[string]{
	func(d *decoder, a *hcl.Attribute, to *string) {
		d.text(a, to)
		if kind, _, file, err := pipelines.SplitArrivals(*to); err == nil && kind == pipelines.ArrivalsTrace {
			*to = pipelines.ArrivalsTrace + ":" + absolute(file, a.Range.Filename)
		} // what is wrong is for validate to say
	},
	func(kind string) hclwrite.Tokens { return text.print(cmp.Or(kind, pipelines.ArrivalsEven)) },
}

// trace reads what the arrivals name.
func (d *decoder) trace(_ *hcl.Block, attrs hcl.Attributes, p *pipelines.Pipeline) {
	kind, _, path, err := pipelines.SplitArrivals(p.Arrivals)
	if err != nil || kind != pipelines.ArrivalsTrace {
		return
	}
	a := attrs["arrivals"]
	src, ok := d.read(path, a, "trace", "A trace holds the number of requests in each second, one a line.")
	if !ok {
		return
	}
	trace, diags := files.ReadTrace(path, src)
	d.diags = append(d.diags, diags...)
	if len(trace.Seconds) > pipelines.MaxDeclaredTrace {
		d.report(files.Problem("Trace too long", fmt.Sprintf("The trace has %d lines; a declaration travels with its trace and takes %d. Keep the busiest hours of it.", len(trace.Seconds), pipelines.MaxDeclaredTrace), ptr(a.Expr.Range())))
		return
	}
	p.Trace = &trace
}

// attainment is a share of requests; 0 asks for none.
var attainment = codec[float64]{
	func(d *decoder, a *hcl.Attribute, to *float64) {
		share := math.NaN()
		switch d.number(a, &share); {
		case math.IsNaN(share): // reported
		case share < 0:
			d.report(files.Problem("Invalid attainment", "Attainment is a share between 0 and 1, such as 0.99; 0 asks for none.", ptr(a.Expr.Range())))
		case share == 0:
			*to = pipelines.NoAttainment
		default:
			*to = share
		}
	},
	func(x float64) hclwrite.Tokens { return number.print(math.Max(0, x)) },
}

// headroom is a share of the objective: "10%", or 0.1.
var headroom = codec[*float64]{
	func(d *decoder, a *hcl.Attribute, to **float64) {
		v, ok := d.value(a, cty.DynamicPseudoType, pipelines.HeadroomHint)
		if !ok {
			return
		}
		share := math.NaN()
		switch v.Type() {
		case cty.Number:
			share, _ = v.AsBigFloat().Float64()
		case cty.String:
			text, percent := strings.CutSuffix(strings.TrimSpace(v.AsString()), "%")
			if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && percent {
				share = x / 100
			}
		}
		if problemOf := pipelines.CheckHeadroom(share); problemOf != "" {
			d.report(files.Problem("Invalid headroom", problemOf, ptr(a.Expr.Range())))
			return
		}
		*to = &share
	},
	func(x *float64) hclwrite.Tokens { return text.print(pipelines.PercentText(*x)) },
}

func planOf[T any](field func(*T) *pipelines.Planning) part[T] {
	return one(&planBlock, field, pipelines.PlanPath, "There is a plan block", "; a service has one")
}

// planBlock has what the plan of any kind of service may say; the validator tells what
// does not fit the kind.
var planBlock = block[pipelines.Planning]{
	kind:  "plan",
	notes: "in",
	attributes: []attribute[pipelines.Planning]{
		attr("policy", text, func(p *pipelines.Planning) *string { return &p.Policy },
			`of a pipeline `+firstIsDefault(pipelines.Policies(pipelines.KindPipeline))+`; of a pool `+firstIsDefault(pipelines.Policies(pipelines.KindPool))+`; of a function `+firstIsDefault(pipelines.Policies(pipelines.KindFunction))).noted("all"),
		attr("cost_model", text, func(p *pipelines.Planning) *string { return &p.CostModel },
			`what a plan costs: '"shared"' (default), '"whole"', '"proportional"'; see [planning](../explanation/planning.md)`).noted("pipelines"),
		attr("without", texts, func(p *pipelines.Planning) *[]string { return &p.Without },
			`list of the policy's steps that are switched off: '"tc"', '"dt"', '"multi"', '"multi:one"', '"hetero"', '"hetero:dearest"', '"batch"', '"concurrency"', '"dummy"', '"reassign"', '"reassign:one"', '"merge"', '"direct"'. Policy 'harpagon' has all of them, 'piccolo' all but the last two, 'brute' 'hetero' to 'dummy', 'exact' 'hetero' to 'concurrency', the baselines none`).noted("pipelines"),
		attr("split", text, func(p *pipelines.Planning) *string { return &p.Split },
			`how policies 'harpagon' and 'piccolo' divide the objective: '"lc"' (default, by latency-cost efficiency), '"throughput"', '"even"', '"quantized:10ms"' with any step`).noted("pipelines"),
		attr("reading", text, func(p *pipelines.Planning) *string { return &p.Reading },
			`how Theorem 1 judges a machine that is only partly used: '"own"' (default, at its own rate), '"literal"' (policies 'harpagon' and 'piccolo')`).noted("pipelines"),
		attr("concurrency", boolean, func(p *pipelines.Planning) *bool { return &p.Concurrency },
			`'true' for profile points with several batches at a time on a machine, which policies 'exact', 'piccolo' and 'scrooge' use anyway where a profile has them. Modules without a profile are then measured with 1, 2 and 4 at a time`).noted("pipelines"),
		attr("allow_unsound", boolean, func(p *pipelines.Planning) *bool { return &p.AllowUnsound },
			`'true' for serving a plan that is not sound: some of its windows cannot be kept by any dispatcher. Without it such a plan is printed and simulated, and not served`).noted("pipelines"),
	},
}

var updateBlock = block[pipelines.Update]{
	kind: "update",
	attributes: []attribute[pipelines.Update]{
		attr("canary", number, func(u *pipelines.Update) *float64 { return &u.Canary },
			`share of requests that the new generation answers first, above 0 and at most 1`).noted("one of them"),
		attr("shadow", number, func(u *pipelines.Update) *float64 { return &u.Shadow },
			`share of requests that it is sent as well, and whose answers are dropped`).noted("one of them"),
		attr("hold", duration, func(u *pipelines.Update) *time.Duration { return &u.Hold },
			`for how long; '"1m"' without it`),
		attr("revert", revert, func(u *pipelines.Update) *pipelines.Revert { return &u.Revert },
			`when the change is taken back: '{ attainment = 0.98, cost = 1.2 }', the least that the new generation attains and the most that a request costs, in terms of the old one; 0.98 and any cost without them`),
	},
	finish: func(d *decoder, from *hcl.Block, attrs hcl.Attributes, _ *pipelines.Update) {
		for _, name := range []string{"canary", "shadow"} {
			if attrs[name] == nil {
				d.place(d.path+"."+name, from.DefRange) // a fault may be that it is missing
			}
		}
	},
}

var streamBlock = block[pipelines.Stream]{
	kind: "stream",
	name: func(s *pipelines.Stream) *string { return &s.Kind },
	attributes: []attribute[pipelines.Stream]{
		attr("rate", number, func(s *pipelines.Stream) *float64 { return &s.Rate },
			`frames per second of one stream`).noted("required"),
		attr("count", integer, func(s *pipelines.Stream) *int { return &s.Count },
			`streams that are planned for; the pipeline's rate follows: 'rate' of each. One more is refused when it opens`).noted("this or 'opening'").
			printedWhen(func(s *pipelines.Stream) bool { return s.Opening == 0 && !s.IsZero() }),
		attr("opening", number, func(s *pipelines.Stream) *float64 { return &s.Opening },
			`streams that open per second, on average, where they come and go; then 'count' follows`).noted("this or 'count'"),
		attr("length", duration, func(s *pipelines.Stream) *time.Duration { return &s.Length },
			`how long one of them lasts on average, such as '"3m"'`).noted("with 'opening'"),
		attr("admitted", number, func(s *pipelines.Stream) *float64 { return &s.Admitted },
			`share of them that is to find a place, 0.99 without it`),
		attr("jitter", duration, func(s *pipelines.Stream) *time.Duration { return &s.Jitter },
			`how far a frame may come after its pace, such as '"20ms"'; nothing without it`),
		attr("stale", text, func(s *pipelines.Stream) *string { return &s.Stale },
			`which frame of a stream is dropped where not all can be in time: '"oldest"' (default), '"newest"', or '"alternate"', every second one`),
		attr("phases", text, func(s *pipelines.Stream) *string { return &s.Phases },
			`'"any"' (default) where streams send when they like, so that all may send at one instant; '"chosen"' where whoever sends spreads them evenly over the period, as 'harpagon feed' does, and less capacity may do. See [streams](../explanation/streams.md)`),
		attr("weight", number, func(s *pipelines.Stream) *float64 { return &s.Weight },
			`of one of several kinds: its share of what devices do when they can't do all, as a multiple of that of its frames planned for; 1 without it`),
	},
	finish: func(d *decoder, from *hcl.Block, attrs hcl.Attributes, s *pipelines.Stream) {
		for _, name := range []string{"rate", "count", "length"} {
			if attrs[name] == nil {
				d.place(d.path+"."+name, from.DefRange) // a fault may be that it is missing
			}
		}
		if attrs["count"] != nil && attrs["opening"] != nil {
			d.report(files.Problem("Two counts", "count follows from opening and length; take one of them out.", ptr(attrs["count"].Expr.Range())))
			return
		}
		*s = s.Sized()
	},
}

var overlayBlock = block[pipelines.Overlay]{
	kind: "overlay",
	attributes: []attribute[pipelines.Overlay]{
		attr("frame", text, func(o *pipelines.Overlay) *string { return &o.Frame },
			`the input that takes pictures, by its name: '"FP32"' from 0 to 1 or '"UINT8"' of '[3, height, width]' or '[height, width, 3]', or '"BYTES"' of a JPEG or PNG`).noted("required"),
		attr("boxes", text, func(o *pipelines.Overlay) *string { return &o.Boxes },
			`an input or output of '[n, 4]', by its name: where something is. A box without width or height is none`),
		attr("corners", text, func(o *pipelines.Overlay) *string { return &o.Corners },
			`what the four numbers of a box are: '"xyxy"' (default) left, top, right and bottom, '"xywh"' left, top, width and height, '"cxcywh"' the middle, width and height`),
		attr("unit", text, func(o *pipelines.Overlay) *string { return &o.Unit },
			`in what they are: '"pixels"' (default) of the frame, or '"fractions"' of its width and height`),
		attr("labels", texts, func(o *pipelines.Overlay) *[]string { return &o.Labels },
			`inputs or outputs with an element for each box, which is written beside it: names, classes, scores, identities. A box with a negative whole number is none`),
		attr("console", boolean, func(o *pipelines.Overlay) *bool { return &o.Console },
			`'true' shows the last frame of a stream on the console, to whoever may read it, where the gateway asks for credentials. Without it nobody sees a frame there`),
	},
	finish: func(d *decoder, from *hcl.Block, attrs hcl.Attributes, _ *pipelines.Overlay) {
		if attrs["frame"] == nil {
			d.place(d.path+".frame", from.DefRange) // a fault may be that it is missing
		}
	},
}

// streamed completes a pipeline by its stream block, from which its rate follows.
func streamed(d *decoder, attrs hcl.Attributes, _ *pipelines.Document, p *pipelines.Pipeline) {
	switch rate, arrivals := attrs["rate"], attrs["arrivals"]; {
	case len(p.StreamKinds()) == 0:
		return
	case rate != nil:
		d.report(files.Problem("Two rates", "The rate of a pipeline with streams is rate of each of count streams; take this one out.", ptr(rate.Expr.Range())))
	case arrivals != nil && p.Arrivals != pipelines.ArrivalsEven:
		d.report(files.Problem("Arrivals beside streams", `Frames of a stream come evenly, as far as its jitter allows: arrivals is "even", or left out.`, ptr(arrivals.Expr.Range())))
	}
	p.Arrivals, p.Rate = pipelines.ArrivalsEven, p.StreamsTotal()
}

// revert is { attainment = SHARE, cost = FACTOR }.
var revert = codec[pipelines.Revert]{
	func(d *decoder, a *hcl.Attribute, to *pipelines.Revert) {
		const hint = "what a change may cost at the most, such as { attainment = 0.98, cost = 1.2 }"
		v, ok := d.value(a, cty.DynamicPseudoType, hint)
		if !ok {
			return
		}
		if !v.Type().IsObjectType() {
			d.report(files.Problem("Wrong type", "revert is "+hint+".", ptr(a.Expr.Range())))
			return
		}
		for name, x := range v.AsValueMap() {
			into := map[string]*float64{"attainment": &to.Attainment, "cost": &to.Cost}[name]
			if into == nil || x.IsNull() || x.Type() != cty.Number {
				d.report(files.Problem("Wrong type", fmt.Sprintf("%s is not a number that revert has; it is %s.", name, hint), ptr(a.Expr.Range())))
				continue
			}
			*into, _ = x.AsBigFloat().Float64()
		}
	},
	func(r pipelines.Revert) hclwrite.Tokens {
		all := map[string]cty.Value{}
		for name, x := range map[string]float64{"attainment": r.Attainment, "cost": r.Cost} {
			if x != 0 {
				all[name] = decimal(x)
			}
		}
		return literal(cty.ObjectVal(all))
	},
}

var inputBlock = block[pipelines.Port]{
	kind: "input",
	attributes: []attribute[pipelines.Port]{
		forEach[pipelines.Port](),
		attr("datatype", text, func(in *pipelines.Port) *string { return &in.Datatype },
			`in the spelling of the Open Inference Protocol: 'BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', 'BF16', 'FP32', 'FP64', 'BYTES'`).required(),
		attr("shape", integers, func(in *pipelines.Port) *[]int64 { return &in.Shape },
			`of one request, without a batch dimension; '-1' where it varies, '[]' for a scalar`).required(),
		attr("sample", file, func(in *pipelines.Port) *string { return &in.Sample },
			`a file with a typical request, instead of 'typical': a picture (PNG, JPEG) is '[3, height, width]', JSON states its shape, of raw elements one dimension may vary. Its shape is used, not what it holds; to send it, 'harpagon load --input NAME=FILE'`),
		attr("typical", integers, func(in *pipelines.Port) *[]int64 { return &in.Typical },
			`where the shape varies: that of a typical request, such as '[3, 640, 480]' for '[3, -1, -1]'. Profiles, warm-ups and 'harpagon load' send tensors of it`).
			printedWhen(func(in *pipelines.Port) bool { return in.Sample == "" && len(in.Typical) > 0 }),
	},
	name:   func(in *pipelines.Port) *string { return &in.Name },
	finish: (*decoder).sample,
}

// sample reads the shape of the file that stands for a typical request.
func (d *decoder) sample(_ *hcl.Block, attrs hcl.Attributes, in *pipelines.Port) {
	a := attrs["sample"]
	if a != nil && attrs["typical"] != nil {
		d.report(files.Problem("Two typical shapes", "The shape of the sample is the typical one; give sample or typical.", ptr(a.Expr.Range())))
		in.Sample = ""
	}
	if in.Sample == "" {
		return
	}
	shape, err := files.SampleShape(*in, in.Sample)
	if err != nil {
		d.report(files.Problem("Unusable sample", err.Error()+".", ptr(a.Expr.Range())))
		return
	}
	in.Typical = shape
}

var outputBlock = block[pipelines.Output]{
	kind: "output",
	attributes: []attribute[pipelines.Output]{
		forEach[pipelines.Output](),
		attr("value", ref, func(o *pipelines.Output) *pipelines.Ref { return &o.From }, `a reference`).required(),
	},
	name: func(o *pipelines.Output) *string { return &o.Name },
}
