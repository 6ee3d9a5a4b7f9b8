package pipelines

import (
	"math"
	"slices"
	"strconv"
)

func (v *validator) hardware(h *Hardware) {
	path := "hardware." + h.Name
	if (!(h.Price > 0) || !IsFinite(h.Price)) && !v.missing(path+".price") {
		v.errorf(path+".price", "Invalid price", "The price of a device must be above zero, in money per hour: plans are compared by cost.")
	}
	if h.Count < 0 {
		v.errorf(path+".count", "Invalid count", "A count of devices cannot be negative; leave it out where there is no limit.")
	}
	if h.Cores < 0 {
		v.errorf(path+".cores", "Invalid cores", "A device is made of at least one core; leave cores out where it is no part of a processor.")
	}
	if h.Memory < 0 {
		v.errorf(path+".memory", "Invalid memory", "Memory cannot be negative.")
	}
	if h.Interruptions < 0 || h.Interruptions > MaxInterruptions || math.IsNaN(h.Interruptions) {
		v.errorf(path+".interruptions", "Invalid interruptions", "Interruptions are how often one device is taken back, per hour: from 0 to %d. 20 %% a month are 0.0003.", MaxInterruptions)
	}
	if h.Recovery < 0 || h.Recovery > MaxDuration {
		v.errorf(path+".recovery", "Invalid recovery", "The recovery is how long until another device serves in the place of one that was taken back, at most a day.")
	}
	if m := h.Listed.Market; m != "" && !slices.Contains(Markets(), m) {
		v.errorf(path+".market", "Unknown market", "Devices are rented on market %s.%s", Quoted(Markets()), v.suggest(m, Markets()))
	}
}

// lasting finds hardware that is taken back, where plans count on it to stay.
func (v *validator) lasting(names []string, path, kind string) {
	for _, name := range names {
		if h := v.doc.HardwareNamed(name); h.Interruptions > 0 {
			v.errorf(path, "Hardware that is interrupted", "Plans of a %s count on devices that stay, and %q is taken back %v times an hour. Declare it without interruptions to take that risk, or rent it on demand.", kind, name, h.Interruptions)
		}
	}
}

// cluster finds what is wrong with a cluster on its own, and with what is in it.
func (v *validator) cluster(c *Cluster) {
	path := "cluster." + c.Name
	if slices.ContainsFunc(v.doc.Pipelines, func(p Pipeline) bool { return p.Name == c.Name }) {
		v.errorf(path, "Declared twice", "There is a pipeline %q, too; requests name what they are for, so choose another name for the cluster.", c.Name)
	}
	if !slices.Contains(v.hardwareNames, c.Hardware) && !v.missing(path+".hardware") {
		v.errorf(path+".hardware", "Unknown hardware", "No hardware block declares %q.%s", c.Hardware, v.suggest(c.Hardware, v.hardwareNames))
	}
	v.clusterDevices(c, path)
	v.lasting([]string{c.Hardware}, path+".hardware", "cluster")
	v.dispatch(KindCluster, c.Dispatch, path+".dispatch")
	if len(c.Pipelines) == 0 && !v.missing(path+".pipelines") {
		v.errorf(path+".pipelines", "No pipeline", "A cluster serves at least one pipeline: pipelines = [\"NAME\"].")
	}
	for i, name := range c.Pipelines {
		v.member(c, i, name, path+".pipelines."+strconv.Itoa(i))
	}
}

func (v *validator) clusterDevices(c *Cluster, path string) {
	d, h := c.Devices, v.doc.HardwareNamed(c.Hardware)
	switch {
	case v.declared(path+".devices") && d.Max < 1 || d.Min < 0 || d.Max < 0:
		v.errorf(path+".devices", "Invalid devices", "A cluster has at least one device: a number, or { min = 2, max = 64 }; left out, it is planned with as many as it needs.")
	case d.Min > d.Max:
		v.errorf(path+".devices", "Invalid devices", "The least number of devices, min = %d, is above the most, max = %d.", d.Min, d.Max)
	case h.Count > 0 && d.Min > h.Count:
		v.errorf(path+".devices", "Too many devices", "The cluster has at least %d devices, and there are %d of %q.", d.Min, h.Count, c.Hardware)
	}
}

// member finds what keeps a pipeline from being served in the cluster.
func (v *validator) member(c *Cluster, i int, name, path string) {
	var names []string
	for _, p := range v.doc.Pipelines {
		names = append(names, p.Name)
	}
	at := slices.Index(names, name)
	switch {
	case at < 0:
		v.errorf(path, "Unknown pipeline", "The files declare no pipeline %q.%s", name, v.suggest(name, names))
		return
	case slices.Contains(c.Pipelines[:i], name):
		v.errorf(path, "Declared twice", "Pipeline %q stands in the cluster twice.", name)
		return
	}
	if first := v.doc.ClusterOf(name); first != c.Name {
		v.errorf(path, "Pipeline in two clusters", "Pipeline %q is in cluster %q already; its requests wait in one place only. Take it out of one of them.", name, first)
	}
	p := &v.doc.Pipelines[at]
	if !p.Plan.IsZero() {
		v.warnf(path, "Plan block without use", "Pipeline %q has a plan block; in a cluster it has no plan of its own.", name)
	}
	h := v.doc.HardwareNamed(c.Hardware)
	for k := range p.Modules {
		m := &p.Modules[k]
		if len(m.Profile.Points) == 0 || h.Name == "" {
			continue // measured later, or reported
		}
		v.resident(m, name, h, p, path)
	}
}

// resident finds what keeps a module from running on every device of a cluster.
func (v *validator) resident(m *Module, pipeline string, h Hardware, p *Pipeline, path string) {
	least, memory := -1.0, 0.0
	for _, at := range m.Profile.Points {
		if at.Hardware == h.Name && at.Concurrency <= 1 {
			if d := at.Duration.Seconds(); least < 0 || d < least {
				least = d
			}
			if memory == 0 || at.MemoryMiB < memory {
				memory = at.MemoryMiB
			}
		}
	}
	switch {
	case least < 0 || len(m.Hardware) > 0 && !slices.Contains(m.Hardware, h.Name):
		v.errorf(path, "Module does not run there", "Every device of a cluster runs every module, and %s of pipeline %q does not run on %q: profile it there, or take the pipeline out.", m.Name, pipeline, h.Name)
	case h.Memory > 0 && memory*(1<<20) > float64(h.Memory):
		v.errorf(path, "Model fits on no device", "%s of pipeline %q takes %.4g MiB even with its smallest batch, and a device %q has %.4g MiB.", m.Name, pipeline, memory, h.Name, float64(h.Memory)/(1<<20))
	case p.SLO > 0 && least > p.SLO.Seconds():
		v.errorf(path, UnmetObjective, "SLO %v of pipeline %q is below the %.4g ms that %s takes alone on %q. Allow more time, or take faster hardware.", p.SLO, pipeline, 1000*least, m.Name, h.Name)
	}
}

// planning reports what is wrong with how a service is planned.
func (v *validator) planning(p Planning, k Kind, path string) {
	for _, f := range p.Faults(k) {
		v.errorf(path+PlanPath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}

// update reports what is wrong with how changes are carried out.
func (v *validator) update(u Update, path string) {
	if u.IsZero() && !v.declared(path+UpdatePath) {
		return
	}
	for _, f := range u.Faults() {
		v.errorf(path+UpdatePath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}

// stream reports what is wrong with how frames come.
func (v *validator) stream(p *Pipeline, path string) {
	kinds := p.StreamKinds()
	if len(kinds) == 0 {
		if !v.declared(path + StreamPath) {
			return
		}
		kinds = []Stream{p.Stream}
	}
	if len(p.Kinds) > 0 && !p.Stream.IsZero() {
		v.errorf(path+StreamPath, "A stream without a name", "Of several kinds of streams each has a name: stream \"cameras\" { ... }.")
	}
	names := make(map[string]bool)
	for i := range kinds {
		of := &kinds[i]
		for _, f := range of.Faults() {
			v.errorf(path+of.path()+"."+f.Attribute, f.Summary, "%s", f.Detail)
		}
		if len(p.Kinds) > 0 && (!IsName(of.Kind) || names[of.Kind]) {
			v.errorf(path+of.path(), "Invalid name", "%q cannot name a kind of streams: each has a name of its own, of letters, digits, dots, hyphens and underscores.", of.Kind)
		}
		names[of.Kind] = true
	}
	for name, most := range p.Bursts() {
		if float64(most)*float64(p.Streams()) > maxBurst {
			v.errorf(path+kinds[0].path()+".count", "Too many at once", "%d streams with %d items each in a frame are more than module %q can be planned for; take fewer.", p.Streams(), most, name)
			break
		}
	}
	if kind, _, _, err := SplitArrivals(p.Arrivals); err == nil && kind != ArrivalsEven {
		v.errorf(path+kinds[0].path(), "Arrivals beside streams", "Frames of a stream come evenly, as far as its jitter allows: arrivals is \"even\".")
	}
}

// overlay reports what is wrong with what is drawn on frames.
func (v *validator) overlay(p *Pipeline, path string) {
	if p.Overlay.IsZero() && !v.declared(path+OverlayPath) {
		return
	}
	for _, f := range p.Overlay.Faults(p) {
		v.errorf(path+OverlayPath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}
