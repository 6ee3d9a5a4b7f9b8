package pipelines

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// CheckFunction is what CheckAll finds in a function made in Go and in its
// provider. That an objective cannot be met is not among it: a plan says so,
// beside the others.
func CheckFunction(f *Function, p *Provider) error {
	v := newValidator(&Document{Providers: []Provider{*p}, Functions: []Function{*f}}, Sources{}, nil)
	v.provider(p)
	v.function(f)
	return joined(v.problems, "", UnmetObjective)
}

func (v *validator) provider(p *Provider) {
	path := "provider." + p.Name
	v.price(path+".vcpu_second", p.VCPUSecond, p.VCPU, "vCPU and second", "vcpu")
	v.price(path+".gpu_gb_second", p.GPUGBSecond, p.GPUMemory, "GB of GPU memory and second", "gpu_memory")
	if !(p.Invocation >= 0) || !IsFinite(p.Invocation) {
		v.errorf(path+".invocation", "Invalid price", "The price of an invocation is zero or above.")
	}
	if p.Billing < 0 {
		v.errorf(path+".billing", "Invalid granularity", "Billing is the time that an invocation is rounded up to, such as \"1s\"; \"0s\" bills it as it is.")
	}
	if p.Overhead < 0 {
		v.errorf(path+".overhead", "Invalid overhead", "The overhead is the time that a call takes besides the profile, such as \"20ms\"; it cannot be below zero.")
	}
	if p.GPUSlice < 0 {
		v.errorf(path+".gpu_slice", "Invalid time slice", "A time slice is above zero; leave it out to take the profile's.")
	}
	if p.VCPU.Empty() && p.GPUMemory.Empty() {
		v.errorf(path, "Nothing on offer", "A provider has CPU functions (vcpu = { min = 0.05, max = 16, step = 0.05 }), GPU functions (gpu_memory = { min = 1, max = 24, step = 1 }) or both.")
	}
	v.grid(path+".vcpu", p.VCPU)
	v.grid(path+".gpu_memory", p.GPUMemory)
	v.grid(path+".memory_per_vcpu", p.MemoryPerVCPU)
	v.term(path, "memory_gb_second", p.MemoryGBSecond)
	v.term(path, "gpu_vcpu_per_gb", p.GPUVCPUPerGB)
	v.term(path, "gpu_latency_factor", p.GPULatencyFactor)
	if p.GPUBilling < 0 {
		v.errorf(path+".gpu_billing", "Invalid granularity", "gpu_billing is the time that an invocation of a GPU function is rounded up to, such as \"1s\".")
	}
	v.calls(p, path)
}

// term of billing that may be left out.
func (v *validator) term(path, name string, x float64) {
	if !(x >= 0) || !IsFinite(x) {
		v.errorf(path+"."+name, "Invalid term", "%s is a number, zero or above.", name)
	}
}

// price belongs to a grid: what is on offer costs something.
func (v *validator) price(path string, price float64, g Grid, unit, grid string) {
	switch {
	case !(price >= 0) || !IsFinite(price):
		v.errorf(path, "Invalid price", "A price is money per %s, zero or above.", unit)
	case price == 0 && !g.Empty():
		v.errorf(path, "Missing price", "The provider has %s, so it needs a price above zero, in money per %s: plans are compared by cost.", grid, unit)
	}
}

func (v *validator) grid(path string, g Grid) {
	if g.Empty() {
		return
	}
	switch {
	case !(g.Min > 0) || !IsFinite(g.Min):
		v.errorf(path+".min", "Invalid grid", "The least size is above zero.")
	case !(g.Max >= g.Min) || !IsFinite(g.Max):
		v.errorf(path+".max", "Invalid grid", "The largest size is not below the least, %v.", g.Min)
	case !(g.Step > 0) || !IsFinite(g.Step):
		v.errorf(path+".step", "Invalid grid", "The step from one size to the next is above zero.")
	case (g.Max-g.Min)/g.Step > MaxGrid:
		v.errorf(path+".step", "Invalid grid", "The grid has more than %d sizes; take a longer step.", MaxGrid)
	}
}

func (v *validator) function(f *Function) {
	path := "function." + f.Name
	v.planning(f.Plan, KindFunction, path)
	provider := v.doc.Provider(f.Provider)
	if provider == nil && !v.missing(path+".provider") {
		v.errorf(path+".provider", "Unknown provider", "No provider block declares %q.%s", f.Provider, Suggest(f.Provider, providers(v.doc)))
	}
	if len(f.Applications) == 0 {
		v.errorf(path, "No application", "A function serves at least one application: application \"NAME\" { slo = \"500ms\", rate = 5 }, with each attribute on a line of its own.")
	}
	if !f.Profile.Known() && f.ProfileFile == "" && !v.missing(path+".profile") {
		v.errorf(path+".profile", "Nothing known of the function", "Give the function a profile: the JSON file of its model's coefficients.")
	}
	for i := range f.Inputs {
		v.input(&f.Inputs[i], path+".input."+f.Inputs[i].Name)
	}
	v.functionName(f, path)
	seen := map[string]bool{}
	for i := range f.Applications {
		a := &f.Applications[i]
		at := path + ".application." + a.Name
		if seen[a.Name] {
			v.errorf(at, "Declared twice", "The function has two applications called %q.", a.Name)
		}
		seen[a.Name] = true
		v.application(a, at)
	}
	if provider != nil && f.Profile.Known() {
		v.profileFits(f, provider, path)
		v.reachableSLO(f, provider, path)
	}
}

func (v *validator) application(a *Application, path string) {
	if a.SLO <= 0 && !v.missing(path+".slo") {
		v.errorf(path+".slo", "Invalid objective", "The SLO must be above zero.")
	}
	if !sensibleRate(a.Rate) {
		v.errorf(path+".rate", "Invalid rate", "A rate is a number of requests per second, from zero to %.0g.", maxRate)
	}
}

// profileFits compares what the profile knows with what the provider offers.
func (v *validator) profileFits(f *Function, p *Provider, path string) {
	g := f.Profile.GPU
	if g == nil || p.GPUMemory.Len() == 0 {
		return
	}
	largest := p.GPUMemory.At(p.GPUMemory.Len() - 1)
	if whole := g.Device(p).Memory; largest > whole*(1+GridTolerance) {
		v.warnf(path+".profile", "Larger than the device", "The provider offers up to %v GB, but the profile is of a device with %v GB; larger functions are not considered.", largest, whole)
	}
	if need := g.Memory(1); need > largest {
		v.warnf(path+".profile", "Too large for GPU functions", "A batch of one needs %v GB of GPU memory, and the provider offers at most %v GB.", need, largest)
	}
}

// reachableSLO finds objectives that no function on offer keeps, even for one
// request at a time.
func (v *validator) reachableSLO(f *Function, p *Provider, path string) {
	need, ok := f.Fastest(p)
	if !ok {
		v.errorf(path+".profile", "No function fits", "The profile is of %s, and provider %q offers %s.", platforms(len(f.Profile.CPU) > 0, f.Profile.GPU != nil), p.Name, platforms(!p.VCPU.Empty(), !p.GPUMemory.Empty()))
		return
	}
	for _, a := range f.Applications {
		if a.SLO > 0 && a.SLO < need {
			v.errorf(path+".application."+a.Name+".slo", UnmetObjective, "SLO %v cannot be met: the fastest function takes up to %s for a single request. Allow more time, or take a provider with larger functions.", a.SLO, quantity.Duration(need.Round(time.Microsecond)))
		}
	}
}

func platforms(cpu, gpu bool) string {
	var names []string
	if cpu {
		names = append(names, "CPU functions")
	}
	if gpu {
		names = append(names, "GPU functions")
	}
	if len(names) == 0 {
		return "no functions"
	}
	return strings.Join(names, " and ")
}

// names of the declared providers.
func providers(d *Document) []string {
	var names []string
	for _, p := range d.Providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// calls checks how functions are called.
func (v *validator) calls(p *Provider, path string) {
	if p.URL != "" {
		v.template(p, path+".url")
	}
	v.managed(p, path)
	if p.Timeout < 0 || p.Timeout > MaxCallTimeout {
		v.errorf(path+".timeout", "Invalid time-out", "The longest that a call may take is above zero and at most %v.", MaxCallTimeout)
	}
	if p.Attempts < 0 || p.Attempts > MaxCallAttempts {
		v.errorf(path+".attempts", "Invalid number of attempts", "A call is sent between 1 and %d times; 1 never sends it again.", MaxCallAttempts)
	}
	if p.Concurrency < 0 || p.Concurrency > MaxCallConcurrency {
		v.errorf(path+".concurrency", "Invalid concurrency", "Between 1 and %d calls may run at once.", MaxCallConcurrency)
	}
	if name := p.TokenVariable; name != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) {
		v.errorf(path+".token_variable", "Not an environment variable", "token_variable is the name of an environment variable, such as \"CLOUD_TOKEN\"; the token itself never stands in a file.")
	}
}

// managed checks how functions are created.
func (v *validator) managed(p *Provider, path string) {
	switch {
	case p.ManageURL != "" && !p.Manage:
		v.errorf(path+".manage_url", "Nothing to manage", "manage_url is where functions are created, which needs manage = true; add it.")
	case p.ManageURL != "" && !regexp.MustCompile(`^https?://[^/?#@\s]+(/[^?#\s]*)?$`).MatchString(p.ManageURL):
		v.errorf(path+".manage_url", "Invalid address", "manage_url is http://HOST/PATH or https://HOST/PATH, without name, password or query; functions are below it.")
	case p.Manage && p.URL == "":
		v.errorf(path+".manage", "No address", "Functions that are created have to be called; add a url, such as \"https://functions.example.com/v2/models/{function}-{platform}-{size}\".")
	case p.Manage && !strings.Contains(p.URL[strings.LastIndexByte(p.URL, '/')+1:], "{function}"):
		v.errorf(path+".url", "No name for functions", "Functions are created by the last part of their address; it holds {function}, such as {function}-{platform}-{size}.")
	}
}

func (v *validator) template(p *Provider, path string) {
	if what := BadTemplate(p.URL); what != "" {
		v.errorf(path, "Invalid address", "%s", what)
		return
	}
	has := func(name string) bool { return strings.Contains(p.URL, "{"+name+"}") }
	switch {
	case !has("function") && v.functionsOf(p) > 1:
		v.errorf(path, "One address for all functions", "Several functions run at this provider, and the address is the same for all; add {function}.")
	case !has("size") && !(has("vcpu") || p.VCPU.Empty()) && !(has("gpu_memory") || p.GPUMemory.Empty()), !p.VCPU.Empty() && !p.GPUMemory.Empty() && !tellsPlatforms(has):
		v.warnf(path, "One address for all sizes", "A plan chooses sizes of functions, and the address is the same for all; add {platform} and {size}.")
	}
	if p.TokenVariable != "" && strings.HasPrefix(p.URL, "http:") && !OnLoopback(p.URL) {
		v.warnf(path, "Token over plain HTTP", "The provider's token would cross the network unencrypted; use https.")
	}
}

// tellsPlatforms reports whether CPU and GPU functions have different addresses.
func tellsPlatforms(has func(string) bool) bool {
	return has("platform") || has("vcpu") && has("gpu_memory")
}

func (v *validator) functionsOf(p *Provider) (n int) {
	for _, f := range v.doc.Functions {
		if f.Provider == p.Name {
			n++
		}
	}
	return n
}

// functionName keeps names apart that clients address alike: a pipeline as
// NAME, an application of a function as NAME/APPLICATION.
func (v *validator) functionName(f *Function, path string) {
	for _, p := range v.doc.Pipelines {
		if p.Name == f.Name {
			v.errorf(path, "Declared twice", "A pipeline is called %q as well, and clients address both by name; rename one.", f.Name)
		}
	}
}
