package pipelines

import (
	"slices"
	"strconv"
	"strings"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Summaries of findings that a plan tells as an infeasible pool, with the
// reason, so that everything else in the same files is planned all the same.
const (
	// UnmetObjective is an objective that no hardware meets.
	UnmetObjective = "SLO cannot be met"
	// SmallBudget is a budget that pays for no pool.
	SmallBudget = "Budget too small"
)

// pool finds what is wrong with a pool on its own, and with what it stands on.
func (v *validator) pool(p *Pool) {
	path := "pool." + p.Name
	if slices.ContainsFunc(v.doc.Pipelines, func(other Pipeline) bool { return other.Name == p.Name }) {
		v.errorf(path, "Declared twice", "There is a pipeline %q, too; requests name what they are for, so choose another name.", p.Name)
	}
	v.planning(p.Plan, KindPool, path)
	if p.SLO <= 0 && !v.missing(path+".slo") {
		v.errorf(path+".slo", "Invalid objective", "The SLO must be above zero.")
	}
	if (!(p.Budget > 0) || !IsFinite(p.Budget)) && !v.missing(path+".budget") {
		v.errorf(path+".budget", "Invalid budget", "A budget is money per hour, above zero.")
	}
	kind, _, _, err := SplitArrivals(p.Arrivals)
	switch {
	case err != nil:
		v.errorf(path+".arrivals", "Invalid arrivals", "%s.", sentence(err))
	case kind == ArrivalsTrace:
		v.errorf(path+".arrivals", "Invalid arrivals", "A pool is planned for the highest rate that it sustains, so its arrivals have no rate of their own: even, poisson or gamma:SHAPE.")
	}
	v.poolNetwork(p, path)
	v.points(len(p.Profile.Points), path)
	if p.Learned && (p.ProfileFile != "" || len(p.Profile.Points) > 0) {
		v.errorf(path+".measure", "Nothing to learn", "With measure = false the pool starts without knowing what queries take, but it has a profile; take one of the two out.")
	}
	kinds := v.poolHardware(p, path)
	v.lasting(kinds, path+".hardware", "pool")
	if !slices.Contains(kinds, p.Base) {
		return // reported
	}
	if !p.Unmeasured() {
		v.poolSizes(p, path, kinds)
	}
	if h := v.doc.HardwareNamed(p.Base); h.Price > p.Budget && p.Budget > 0 {
		v.errorf(path+".budget", SmallBudget, "A pool has at least one instance of its base, and %q costs %v an hour, more than the budget of %v.", p.Base, h.Price, p.Budget)
	}
}

// poolHardware gives the kinds that the pool may have and that are declared
// and profiled.
func (v *validator) poolHardware(p *Pool, path string) []string {
	var declared, usable []string
	for _, h := range v.doc.Hardware {
		declared = append(declared, h.Name)
	}
	if len(declared) == 0 {
		v.errorf(path, "No hardware", "Declare the kinds of instances that can be rented: hardware \"NAME\" { price = 0.5 }.")
		return nil
	}
	unread := v.declared(path+".profile") && v.missing(path+".profile") || p.ProfileFile != "" && v.unread(p.ProfileFile)
	measured := !p.Unmeasured()
	if measured && !unread && len(p.Profile.Points) == 0 && p.ProfileFile == "" {
		v.errorf(path, "Nothing known of the pool", "Give the pool a model, which is measured where it runs, or a profile (hardware,batch,duration_ms), by which it is emulated.")
		return nil
	}
	for i, name := range p.Hardware {
		switch {
		case slices.Contains(p.Hardware[:i], name):
			v.errorf(path+".hardware", "Declared twice", "%q stands in the list twice.", name)
		case !slices.Contains(declared, name):
			v.errorf(path+".hardware", "Unknown hardware", "No hardware block declares %q.%s", name, Suggest(name, declared))
		case len(p.Profile.Latency(name)) == 0 && !unread && measured:
			v.errorf(path+".profile", "Gap in the profile", "The pool may have %q, but its profile has no point there with a concurrency of 1.", name)
		default:
			usable = append(usable, name)
		}
	}
	if len(p.Hardware) == 0 {
		usable = p.Kinds(v.doc.Hardware)
	}
	switch {
	case p.Base == "" && v.missing(path+".base"), unread:
	case len(p.Hardware) > 0 && !slices.Contains(p.Hardware, p.Base):
		v.errorf(path+".base", "Base outside the pool", "The base %q is not in the list of hardware.%s", p.Base, Suggest(p.Base, p.Hardware))
	case !slices.Contains(declared, p.Base):
		v.errorf(path+".base", "Unknown hardware", "No hardware block declares %q.%s", p.Base, Suggest(p.Base, declared))
	case len(p.Profile.Latency(p.Base)) == 0 && len(p.Hardware) == 0 && measured:
		v.errorf(path+".profile", "Gap in the profile", "The profile has no point on the base %q.", p.Base)
	}
	if unread {
		return nil
	}
	return usable
}

// poolSizes compares the sizes of queries with what was measured.
func (v *validator) poolSizes(p *Pool, path string, kinds []string) {
	if p.SizesFile == "" && len(p.Sizes) == 0 {
		v.poolWithoutSizes(p, path)
		return
	}
	if v.missing(path+".sizes") || v.unread(p.SizesFile) {
		return
	}
	if p.Sizes.Total() <= 0 {
		v.errorf(path+".sizes", "No sizes", "No size has a weight above zero: a file of sizes has the columns size,weight.")
		return
	}
	largest := p.Sizes.Largest()
	at := func(size int) string { return path + ".sizes." + strconv.Itoa(size) }
	base := p.Taken(p.Base)
	if most := base.Largest(); largest > most {
		v.errorf(at(largest), "Size beyond the profile", "Queries have up to %d items, but the profile of the base %q ends at %d: measure it up to the largest size.", largest, p.Base, most)
	} else if size, late := base.Violates(p.Sizes, p.SLO); late && p.SLO > 0 {
		v.errorf(path+".base", UnmetObjective, "SLO %v cannot be met at every size: a query of size %d takes %s on the base %q. Choose a faster base, or allow more time.", p.SLO, size, quantity.Duration(base.At(size)), p.Base)
	}
	for _, name := range kinds {
		l := p.Taken(name)
		if name != p.Base && largest > l.Largest() && l.At(l.Largest()) <= p.SLO {
			v.warnf(at(largest), "Size beyond the profile", "Queries have up to %d items, but the profile of %q ends at %d, where it still meets the SLO. Beyond that a line through its last two points is taken.", largest, name, l.Largest())
		}
	}
}

// poolWithoutSizes warns of a plan that does not know its queries.
func (v *validator) poolWithoutSizes(p *Pool, path string) {
	base := p.Taken(p.Base)
	if len(p.Mix()) == 0 && len(base) > 0 && p.SLO > 0 {
		v.errorf(path+".base", UnmetObjective, "SLO %v cannot be met at any size: a query of size %d takes %s on the base %q. Choose a faster base, or allow more time.", p.SLO, base[0].Batch, quantity.Duration(base[0].Duration), p.Base)
		return
	}
	if !v.declared(path + ".sizes") {
		v.warnf(path, "Sizes not known", "Without a file of sizes all measured sizes that the base %q serves in time are taken to be alike frequent, until the gateway has seen the queries that come.", p.Base)
	}
}

// poolNetwork checks what a pool serves, its ports, and how queries are
// distributed.
func (v *validator) poolNetwork(p *Pool, path string) {
	if p.Overhead < 0 {
		v.errorf(path+".overhead", "Invalid overhead", "The overhead is the time that a query takes besides its profile; it cannot be below zero.")
	}
	if c := p.Matching.Coefficients; c != "" && c != CoefficientsPlan && c != CoefficientsPaper {
		v.errorf(path+".dispatch.coefficients", "Unknown coefficients", "%q names no coefficients: %q takes those of the plan, %q the paper's.", c, CoefficientsPlan, CoefficientsPaper)
	}
	if p.Matching.Width < WidthAll {
		v.errorf(path+".dispatch.width", "Invalid width", "The width is how many waiting queries a decision looks at for each instance, from 1.")
	}
	for i := range p.Inputs {
		v.input(&p.Inputs[i], path+".input."+p.Inputs[i].Name)
	}
	m := p.Served().Modules[0]
	switch {
	case !p.Emulated():
	case !m.takes(SourceFile):
		v.served(&m, path)
		return
	case len(p.Inputs)+len(p.Outputs) > 0:
		v.errorf(path, "Ports without a model", "The pool is emulated by its profile, which answers input %q with output %q; ports are declared for a model.", PoolInput, PoolOutput)
		return
	default:
		return
	}
	v.served(&m, path)
	if m.Model != "" && !strings.Contains(m.Model, "://") {
		v.modelFile(&m, path)
	}
	v.batching(&m, path)
	if len(p.Inputs) == 0 {
		v.errorf(path, "No input", "A pool with a model has at least one input block with a datatype and the shape of one item: input \"NAME\" { datatype = \"FP32\", shape = [13] }.")
	}
	if len(p.Outputs) == 0 {
		v.errorf(path, "No output", "A pool with a model has at least one output block: output \"NAME\" { value = model.NAME }.")
	}
	if v.signature != nil && !v.modelless[m.Model] {
		v.poolShapes(p, &m, path)
	}
}

// poolShapes compares the ports of a pool with those of its network.
func (v *validator) poolShapes(p *Pool, m *Module, path string) {
	sig, err := v.signatureOf(m)
	if err != nil {
		v.errorf(orPlace(v, path, ".model"), "Unusable model", "%v", err)
		return
	}
	for _, in := range p.Inputs {
		at := path + ".input." + in.Name
		k := slices.IndexFunc(sig.Inputs, func(own Port) bool { return own.Name == in.Name })
		switch {
		case len(sig.Inputs) == 0:
		case k < 0:
			v.errorf(at, "Unknown input", "%s has no input %q.%s", what(m), in.Name, v.suggest(in.Name, portNames(sig.Inputs)))
		case sig.Inputs[k].Datatype != "" && sig.Inputs[k].Datatype != in.Datatype:
			v.errorf(at+".datatype", "Wrong datatype", "%s takes %s at %q, not %s.", what(m), sig.Inputs[k].Datatype, in.Name, in.Datatype)
		case sig.Inputs[k].Datatype != "" && !itemFits(in.Shape[1:], sig.Inputs[k].Shape):
			v.errorf(at+".shape", "Wrong shape", "%s takes items of shape %v at %q, not %v; the size of the query comes before these dimensions.", what(m), sig.Inputs[k].Shape, in.Name, in.Shape[1:])
		}
	}
	for _, own := range sig.Inputs {
		if !slices.ContainsFunc(p.Inputs, func(in Port) bool { return in.Name == own.Name }) && len(p.Inputs) > 0 {
			v.errorf(path, "Input not fed", "%s has the input %q, which the pool does not declare: input %q { datatype = %q, shape = %v }.", what(m), own.Name, own.Name, own.Datatype, own.Shape)
		}
	}
	for _, out := range p.Outputs {
		if len(sig.Outputs) > 0 && !slices.Contains(portNames(sig.Outputs), out.From.Port) {
			v.errorf(path+".output."+out.Name, "Unknown output", "%s has no output %q.%s", what(m), out.From.Port, v.suggest(out.From.Port, portNames(sig.Outputs)))
		}
	}
}

func portNames(ports []Port) []string {
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return names
}

// itemFits compares the shape of one item with that of the network's; what varies
// fits anything.
func itemFits(declared, own []int64) bool {
	if len(declared) != len(own) {
		return false
	}
	for i, d := range declared {
		if d >= 0 && own[i] >= 0 && d != own[i] {
			return false
		}
	}
	return true
}
