package pipelines

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Provider is a cloud that runs functions and bills them by what they are
// given, for as long as they run. A provider without a grid for vCPU has no CPU
// functions, one without a grid for GPU memory no GPU functions.
type Provider struct {
	Name        string
	VCPUSecond  float64       // money per vCPU and second
	GPUGBSecond float64       // money per GB of GPU memory and second
	Invocation  float64       // money per call
	Billing     time.Duration // each invocation is billed in whole multiples of it; 0 bills the time as it is
	VCPU        Grid          // sizes of CPU functions
	GPUMemory   Grid          // sizes of GPU functions, GB
	Overhead    time.Duration `json:",omitempty"` // what a call takes at most besides the profile: network and gateway; not billed
	GPUSlice    time.Duration // a GPU runs a function this long per GB and round; 0 leaves it to the profile

	// Terms beyond sizes and time; zero where they are not billed.
	MemoryGBSecond   float64       `json:",omitempty"` // money per GB of host memory and second
	MemoryPerVCPU    Grid          `json:",omitzero"`  // GB of host memory that a CPU function has for each vCPU, at least and at most; Step is that of whole functions
	GPUBilling       time.Duration `json:",omitempty"` // in place of Billing on GPU functions
	GPUVCPUPerGB     float64       `json:",omitempty"` // vCPUs that come, and are paid, with a GB of GPU memory
	GPULatencyFactor float64       `json:",omitempty"` // of the longest latency on a part of a GPU; 0 means 1

	// How functions are called. A provider without a URL can be planned with
	// and not served by.
	URL           string        // template of a function's address; see CallURL
	Timeout       time.Duration // of one call; 0 means DefaultCallTimeout
	Attempts      int           // how often a call may be sent in all; 0 means DefaultCallAttempts
	Concurrency   int           // calls of one function that may run at once; 0 means DefaultCallConcurrency
	TokenVariable string        // environment variable that holds the provider's token; empty sends none

	// Manage means that functions are created before they are called, resized, and
	// deleted when they are not called any more.
	Manage    bool   `json:",omitempty"`
	ManageURL string `json:",omitempty"` // where; empty means /functions on the host of URL
}

// Grid is the values Min, Min+Step, ... up to Max. The zero Grid is empty.
type Grid struct{ Min, Max, Step float64 }

// Function is one model that several applications ask, each with an objective
// of its own. Which of them share a batch, and what kind of function runs it,
// is for a plan to say (HarmonyBatch).
type Function struct {
	Name         string
	Provider     string // name of a provider block
	ProfileFile  string // path as declared
	Profile      FunctionProfile
	Model        string   // path as declared; for a provider on this machine, which computes with it
	Inputs       []Port   // for one request; none leaves it to the provider's metadata
	Plan         Planning `json:",omitzero"`
	Applications []Application
}

// Application is one source of requests to a function.
type Application struct {
	Name string
	SLO  time.Duration // counted from a request's arrival
	Rate float64       // requests per second
}

// GridTolerance is relative to a step: a value this close to the grid is on it, and Max counts when it is missed by no more.
const GridTolerance = 1e-6

// MaxGrid bounds how many values a grid may have.
const MaxGrid = 4096

// Empty reports whether nothing was declared.
func (g Grid) Empty() bool { return g == Grid{} }

// Len is how many values the grid has.
func (g Grid) Len() int {
	if g.Empty() || !(g.Step > 0) || !(g.Max >= g.Min) {
		return 0
	}
	return min(MaxGrid, int(math.Floor((g.Max-g.Min)/g.Step+GridTolerance))+1)
}

// At is the i-th value, without the noise of repeated addition: 0.05 and
// 31 steps of 0.05 are 1.6.
func (g Grid) At(i int) float64 {
	const digits = 1e9
	return math.Round((g.Min+float64(i)*g.Step)*digits) / digits
}

// Has reports whether the value is one of the grid's.
func (g Grid) Has(x float64) bool {
	i := math.Round((x - g.Min) / g.Step)
	return i >= 0 && i < float64(g.Len()) && math.Abs(g.At(int(i))-x) <= GridTolerance*g.Step
}

// Application of that name, or nil.
func (f *Function) Application(name string) *Application {
	for i := range f.Applications {
		if f.Applications[i].Name == name {
			return &f.Applications[i]
		}
	}
	return nil
}

// Rate is the sum over the applications.
func (f *Function) Rate() float64 {
	sum := 0.0
	for _, a := range f.Applications {
		sum += a.Rate
	}
	return sum
}

// Provider of that name, or nil.
func (d *Document) Provider(name string) *Provider {
	for i := range d.Providers {
		if d.Providers[i].Name == name {
			return &d.Providers[i]
		}
	}
	return nil
}

// Fastest is the least of the maximum latencies that the provider's functions
// reach with this model, one request at a time; false where it has none.
func (f *Function) Fastest(p *Provider) (time.Duration, bool) {
	least := math.Inf(1)
	for _, c := range f.Profile.CPU {
		for i := range p.VCPU.Len() {
			least = math.Min(least, c.Max.At(p.VCPU.At(i)))
		}
	}
	if g := f.Profile.GPU; g != nil {
		d := g.Device(p)
		for i := range p.GPUMemory.Len() {
			if m := p.GPUMemory.At(i); m >= g.Memory(1) && m <= d.Memory*(1+GridTolerance) {
				least = math.Min(least, g.Max(1, m, d))
			}
		}
	}
	if math.IsInf(least, 1) || !(least >= 0) {
		return 0, false
	}
	return time.Duration(math.Ceil(least*float64(time.Second))) + f.CallOverhead(p), true
}

// What a provider allows where its block does not say.
const (
	DefaultCallTimeout     = time.Minute
	DefaultCallAttempts    = 3
	DefaultCallConcurrency = 1000
)

// Limits of what a block may say.
const (
	MaxCallTimeout     = 15 * time.Minute // the longest that common providers let a function run
	MaxCallAttempts    = 10
	MaxCallConcurrency = 100_000
)

// FunctionSize is one function that was deployed: the model and what it is
// given. A provider's URL names it.
type FunctionSize struct {
	Function  string
	Platform  string  // "cpu" or "gpu"
	VCPU      float64 // 0 on GPU
	GPUMemory float64 // GB; 0 on CPU
	Batch     int     // largest batch that it is sent
}

// placeholders of a URL template, in the order in which they are explained.
func placeholders() []string {
	return []string{"provider", "function", "platform", "size", "vcpu", "gpu_memory", "batch"}
}

// placeholder finds {name} in a URL template.
const placeholder = `\{([^{}]*)\}`

// address takes a URL apart into scheme, host and path.
const address = `^(https?)://([^/?#\s]+)([/?#]\S*)?$`

// CallURL is the address of a function by the provider's template, in which
// {provider}, {function}, {platform} (cpu or gpu), {size} (vCPUs or GB of GPU
// memory, whichever the platform has), {vcpu}, {gpu_memory} and {batch} stand
// for what is called. The model's resources of the Open Inference Protocol
// follow below it: inference is POST URL/infer.
func (p *Provider) CallURL(s FunctionSize) (string, error) {
	if p.URL == "" {
		return "", fmt.Errorf("provider %q has no url, so its functions cannot be called; add one, such as url = \"https://functions.example.com/v2/models/{function}-{platform}-{size}\"", p.Name)
	}
	if what := BadTemplate(p.URL); what != "" {
		return "", fmt.Errorf("provider %q: %s", p.Name, what)
	}
	return regexp.MustCompile(placeholder).ReplaceAllStringFunc(p.URL, func(name string) string {
		return s.value(p, name[1:len(name)-1])
	}), nil
}

func (s FunctionSize) value(p *Provider, name string) string {
	size := s.VCPU
	if s.Platform == "gpu" {
		size = s.GPUMemory
	}
	decimal := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	switch name {
	case "provider":
		return p.Name
	case "function":
		return s.Function
	case "platform":
		return s.Platform
	case "size":
		return decimal(size)
	case "vcpu":
		return decimal(s.VCPU)
	case "gpu_memory":
		return decimal(s.GPUMemory)
	}
	return strconv.Itoa(s.Batch)
}

// CallTimeout is how long one call may take.
func (p *Provider) CallTimeout() time.Duration { return orDefault(p.Timeout, DefaultCallTimeout) }

// CallAttempts is how often a call may be sent in all.
func (p *Provider) CallAttempts() int { return orDefault(p.Attempts, DefaultCallAttempts) }

// CallConcurrency is how many calls may run at once.
func (p *Provider) CallConcurrency() int { return orDefault(p.Concurrency, DefaultCallConcurrency) }

func orDefault[T int | time.Duration](x, otherwise T) T {
	if x > 0 {
		return x
	}
	return otherwise
}

// BadTemplate reports what is wrong with a URL template, empty when nothing is.
func BadTemplate(template string) string {
	names := placeholders()
	matched := regexp.MustCompile(placeholder)
	for _, m := range matched.FindAllStringSubmatch(template, -1) {
		if !slices.Contains(names, m[1]) {
			return fmt.Sprintf("the url has the placeholder {%s}; there is {%s}.%s", m[1], strings.Join(names, "}, {"), Suggest(m[1], names))
		}
	}
	plain := matched.ReplaceAllString(template, "0")
	if strings.ContainsAny(plain, "{}") {
		return "the url has a brace without its counterpart; a placeholder is written {function}."
	}
	parts := regexp.MustCompile(address).FindStringSubmatch(plain)
	switch {
	case parts == nil:
		return "the url must be http://HOST/PATH or https://HOST/PATH, with placeholders such as {function}."
	case strings.Contains(parts[2], "@"):
		return "the url holds a name or password; name the environment variable that holds the token with token_variable."
	case strings.ContainsAny(parts[3], "?#"):
		return "the url has a query or fragment; /infer is added behind its path."
	}
	return ""
}

// OnLoopback reports whether a template's address is on this machine.
func OnLoopback(template string) bool {
	parts := regexp.MustCompile(address).FindStringSubmatch(template)
	return parts != nil && regexp.MustCompile(`^(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?$`).MatchString(parts[2])
}
