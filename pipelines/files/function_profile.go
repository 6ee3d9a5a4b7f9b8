package files

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"

	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of what the profile of a function may say.
const (
	maxFunctionBatch = 256
	maxCoefficient   = 86400 // seconds or vCPU
)

// ReadFunctionProfile reads the coefficients of one model: a JSON object with
// cpu_avg and cpu_max, lists of {batch, alpha, beta, gamma}, and gpu, an object
// with xi1 and xi2; either kind may be left out. Beside those, gpu may hold
// tau_s, Mmax_gb, batch_thresholds_for_gpu_mem and max_batch. A member memory
// may hold per_request_mb, fixed_mb and gpu_gb; a member calls, way_s and
// cold_start_s. All is in seconds, vCPU and GB. Other members are passed over.
// Findings carry the line and column of the file.
func ReadFunctionProfile(filename string, src []byte) (pipelines.FunctionProfile, hcl.Diagnostics) {
	r := &coefficientReader{}
	file, diags := hcljson.Parse(src, filename)
	if diags.HasErrors() || file == nil {
		return pipelines.FunctionProfile{}, diags
	}
	r.members, diags = file.Body.JustAttributes()
	if r.diags = diags; diags.HasErrors() {
		return pipelines.FunctionProfile{}, r.diags
	}
	r.place = hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
	p := r.profile()
	return p, r.diags
}

// coefficientReader goes on after a finding, so that all are reported.
type coefficientReader struct {
	members hcl.Attributes
	place   hcl.Range
	diags   hcl.Diagnostics
}

func (r *coefficientReader) report(summary, detail string, at hcl.Range) {
	r.diags = append(r.diags, Problem(summary, detail, &at))
}

func (r *coefficientReader) profile() pipelines.FunctionProfile {
	var p pipelines.FunctionProfile
	if several, ok := r.members["models"]; ok {
		r.report("Several models", "The profile of a function is one model's object, with cpu_avg, cpu_max and gpu; put the one that is meant into a file of its own.", several.NameRange)
		return p
	}
	avg, hasAvg := r.members["cpu_avg"]
	most, hasMax := r.members["cpu_max"]
	switch {
	case hasAvg && hasMax:
		p.CPU = r.pairs(r.curves(avg), r.curves(most), most)
	case hasAvg || hasMax:
		r.report("Half a profile", "A model on CPU functions needs both cpu_avg, which costs follow from, and cpu_max, which objectives are held by.", r.place)
	}
	if gpu, ok := r.members["gpu"]; ok && !r.null(gpu.Expr) {
		p.GPU = r.gpu(gpu.Expr)
	}
	if memory, ok := r.members["memory"]; ok && !r.null(memory.Expr) {
		p.Memory = r.memory(memory.Expr)
	}
	if calls, ok := r.members["calls"]; ok && !r.null(calls.Expr) {
		fields, _ := r.object(calls.Expr)
		r.optional(fields, calls.Expr.Range(), map[string]*float64{"way_s": &p.Calls.Way, "cold_start_s": &p.Calls.ColdStart})
	}
	if len(p.CPU) == 0 && p.GPU == nil && !r.diags.HasErrors() {
		r.report("Empty profile", "The file has coefficients neither of CPU functions (cpu_avg, cpu_max) nor of GPU functions (gpu).", r.place)
	}
	return p
}

// memory reads what the model needs of main memory; what is left out is nothing.
func (r *coefficientReader) memory(e hcl.Expression) pipelines.HostMemory {
	var m pipelines.HostMemory
	fields, _ := r.object(e)
	r.optional(fields, e.Range(), map[string]*float64{"per_request_mb": &m.PerRequestMB, "fixed_mb": &m.FixedMB, "gpu_gb": &m.GPUGB})
	return m
}

// optional reads coefficients that may be left out.
func (r *coefficientReader) optional(fields map[string]hcl.Expression, at hcl.Range, all map[string]*float64) {
	for name, to := range all {
		if fields[name] != nil {
			*to = r.coefficient(fields, name, at, notNegative)
		}
	}
}

func (r *coefficientReader) null(e hcl.Expression) bool {
	v, diags := e.Value(nil)
	return !diags.HasErrors() && v.IsNull()
}

type batchCurve struct {
	batch int
	curve pipelines.Curve
	at    hcl.Range
}

// curves reads a list of coefficients, one entry for every batch.
func (r *coefficientReader) curves(a *hcl.Attribute) []batchCurve {
	entries, diags := hcl.ExprList(a.Expr)
	if diags.HasErrors() {
		r.report("Wrong kind of value", fmt.Sprintf("%s is a list of objects with batch, alpha, beta and gamma.", a.Name), a.Expr.Range())
		return nil
	}
	var all []batchCurve
	for _, e := range entries {
		fields, ok := r.object(e)
		if !ok {
			continue
		}
		at := e.Range()
		c := batchCurve{batch: r.whole(fields, "batch", at), at: at}
		c.curve.Alpha = r.coefficient(fields, "alpha", at, notNegative)
		c.curve.Beta = r.coefficient(fields, "beta", at, aboveZero)
		c.curve.Gamma = r.coefficient(fields, "gamma", at, notNegative)
		if i := slices.IndexFunc(all, func(other batchCurve) bool { return other.batch == c.batch }); i >= 0 {
			r.report("Declared twice", fmt.Sprintf("%s has two entries for batches of %d; the first is at %s.", a.Name, c.batch, all[i].at), at)
			continue
		}
		all = append(all, c)
	}
	return all
}

// pairs joins averages and maxima of the same batch.
func (r *coefficientReader) pairs(avg, most []batchCurve, a *hcl.Attribute) []pipelines.CPUCurves {
	var all []pipelines.CPUCurves
	for _, c := range avg {
		i := slices.IndexFunc(most, func(m batchCurve) bool { return m.batch == c.batch })
		if i < 0 {
			if !r.diags.HasErrors() {
				r.report("Half a profile", fmt.Sprintf("cpu_avg knows batch %d and cpu_max does not.", c.batch), a.Expr.Range())
			}
			continue
		}
		all = append(all, pipelines.CPUCurves{Batch: c.batch, Avg: c.curve, Max: most[i].curve})
	}
	slices.SortFunc(all, func(x, y pipelines.CPUCurves) int { return cmp.Compare(x.Batch, y.Batch) })
	return all
}

func (r *coefficientReader) gpu(e hcl.Expression) *pipelines.GPULine {
	fields, ok := r.object(e)
	if !ok {
		return nil
	}
	at := e.Range()
	g := &pipelines.GPULine{}
	g.Xi1 = r.coefficient(fields, "xi1", at, notNegative)
	g.Xi2 = r.coefficient(fields, "xi2", at, anySign) // a fit may cross zero below a batch of one
	if _, ok := fields["tau_s"]; ok {
		g.Slice = r.coefficient(fields, "tau_s", at, aboveZero)
	}
	if _, ok := fields["Mmax_gb"]; ok {
		g.WholeGB = r.coefficient(fields, "Mmax_gb", at, aboveZero)
	}
	if _, ok := fields["max_batch"]; ok {
		g.MaxBatch = r.whole(fields, "max_batch", at)
	}
	g.Thresholds = r.thresholds(fields["batch_thresholds_for_gpu_mem"])
	if !r.diags.HasErrors() && !(g.Whole(1) > 0) {
		r.report("Coefficient out of range", fmt.Sprintf("By xi1 and xi2 a batch of one takes %.4g s; a latency is above zero.", g.Whole(1)), at)
	}
	return g
}

// thresholds are batch sizes in rising order.
func (r *coefficientReader) thresholds(e hcl.Expression) []int {
	if e == nil {
		return nil
	}
	entries, diags := hcl.ExprList(e)
	if diags.HasErrors() {
		r.report("Wrong kind of value", "batch_thresholds_for_gpu_mem is a list of batch sizes: entry i is the largest batch that i+1 GB hold.", e.Range())
		return nil
	}
	var all []int
	for _, entry := range entries {
		x, ok := r.number(entry, "batch_thresholds_for_gpu_mem")
		n := int(x)
		if !ok {
			continue
		}
		if float64(n) != x || n < 0 || n > maxFunctionBatch || len(all) > 0 && n < all[len(all)-1] {
			r.report("Coefficient out of range", "The thresholds of GPU memory are whole batch sizes in rising order.", entry.Range())
			continue
		}
		all = append(all, n)
	}
	return all
}

// object gives the members of an object by name.
func (r *coefficientReader) object(e hcl.Expression) (map[string]hcl.Expression, bool) {
	pairs, diags := hcl.ExprMap(e)
	if diags.HasErrors() {
		r.report("Wrong kind of value", "Here an object of coefficients is expected.", e.Range())
		return nil, false
	}
	fields := map[string]hcl.Expression{}
	for _, p := range pairs {
		if name, diags := p.Key.Value(nil); !diags.HasErrors() && name.Type() == cty.String && name.IsKnown() && !name.IsNull() {
			fields[name.AsString()] = p.Value
		}
	}
	return fields, true
}

// sign is what a coefficient may be.
type sign int

const (
	anySign sign = iota
	notNegative
	aboveZero
)

func (s sign) allows(x float64) bool {
	return s == anySign || x > 0 || s == notNegative && x == 0
}

func (s sign) String() string {
	return [...]string{"a number", "zero or above", "above zero"}[s]
}

func (r *coefficientReader) coefficient(fields map[string]hcl.Expression, name string, at hcl.Range, s sign) float64 {
	e, ok := fields[name]
	if !ok {
		r.report("Missing coefficient", fmt.Sprintf("There is no %s here.", name), at)
		return 0
	}
	x, ok := r.number(e, name)
	if ok && (!s.allows(x) || x > maxCoefficient || x < -maxCoefficient) {
		r.report("Coefficient out of range", fmt.Sprintf("%s is %s, at most %d; not %v.", name, s, maxCoefficient, x), e.Range())
		return 0
	}
	return x
}

func (r *coefficientReader) whole(fields map[string]hcl.Expression, name string, at hcl.Range) int {
	x := r.coefficient(fields, name, at, aboveZero)
	if x != float64(int(x)) || x > maxFunctionBatch {
		r.report("Coefficient out of range", fmt.Sprintf("%s is a whole number, from 1 to %d.", name, maxFunctionBatch), fields[name].Range())
		return 1
	}
	return int(x)
}

func (r *coefficientReader) number(e hcl.Expression, name string) (float64, bool) {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.Number {
		r.report("Wrong kind of value", fmt.Sprintf("%s is a number.", name), e.Range())
		return 0, false
	}
	x, _ := v.AsBigFloat().Float64()
	if !pipelines.IsFinite(x) {
		r.report("Number out of range", fmt.Sprintf("The value of %s is too large.", name), e.Range())
		return 0, false
	}
	return x, true
}
