// Package provider stands in for a provider of functions on one machine.
//
// A Host stands in for a cloud that runs functions: for examples, tests and trials. It answers
// the Open Inference Protocol at the addresses that a provider's URL template makes, and bills
// as the declaration states.
//
// A function of one size runs in instances. Each runs one batch at a time; a
// call that finds none idle starts one more, which is a cold start, up to a
// limit, beyond which calls are refused with status 429. An instance that idles
// for long enough is gone.
//
// How long a batch takes is drawn from the function's profile (PaceProfile):
// around the average, with the maximum as the 99th percentile and cut off there,
// as the planner's model has it. Where the function has a model, an engine
// computes the answer and the instance waits out the rest. PaceShare takes the
// engine's own time instead, and stretches it to the share of a core that a CPU
// function has, as a scheduler that lets it run for a part of every period
// would.
//
// The answer's header Server-Timing has the time that is billed, and that of a cold start,
// which is not. GET /billing is the bill as JSON.
package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/wire"
)

// Pace states how long a batch takes.
type Pace string

// The paces.
const (
	PaceProfile Pace = "profile" // what the profile states
	PaceShare   Pace = "share"   // what the engine takes on a share of a core; CPU functions only
)

// Defaults of Options.
const (
	DefaultKeep      = 5 * time.Minute
	DefaultColdStart = time.Second
	DefaultMaxBody   = 256 << 20
)

// Options of a Host.
type Options struct {
	Problems  []functions.Problem // functions with their provider
	Engines   []executors.Engine  // for functions that have a model
	Pace      Pace                // empty means PaceProfile
	Steady    bool                // every batch takes its average latency
	ColdStart time.Duration       // of an instance, before the model is loaded; 0 means DefaultColdStart, below 0 none
	Keep      time.Duration       // an idle instance is kept so long; 0 means DefaultKeep
	Limit     int                 // instances of one size; 0 means the provider's concurrency
	MaxBody   int64               // bytes of a call; 0 means DefaultMaxBody
	Token     string              // that calls must bring; empty requires none
	Seed      uint64              // of the latencies
}

// Host runs functions. It is an http.Handler.
type Host struct {
	options Options
	mux     *http.ServeMux
	places  []place
	life    context.Context
	end     context.CancelFunc
	tidying sync.WaitGroup

	mu       sync.Mutex
	noise    *rand.Rand
	deployed map[string]*deployed // by path
}

// New makes a host; Close ends it. The error names a function that it cannot run.
func New(o Options) (*Host, error) {
	o = o.withDefaults()
	h := &Host{options: o, deployed: map[string]*deployed{}, noise: rand.New(rand.NewPCG(o.Seed, 0))}
	for _, p := range o.Problems {
		at, err := newPlace(p)
		if err != nil {
			return nil, err
		}
		if err := h.findEngine(at); err != nil {
			return nil, err
		}
		h.places = append(h.places, *at)
	}
	if len(h.places) == 0 {
		return nil, fmt.Errorf("provider: no function is declared")
	}
	h.life, h.end = context.WithCancel(context.Background())
	h.route()
	h.tidying.Go(h.expireIdle)
	return h, nil
}

func (o Options) withDefaults() Options {
	if o.Pace == "" {
		o.Pace = PaceProfile
	}
	if o.ColdStart == 0 {
		o.ColdStart = DefaultColdStart
	}
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	return o
}

// answerPort is what a function without a model answers: a checksum of the
// request's inputs, so that callers can check that the answer is theirs.
const answerPort = "y"

// findEngine finds the engine of a function, and what it takes and gives.
func (h *Host) findEngine(at *place) error {
	f := &at.problem.Function
	module := pipelines.Module{Name: f.Name, Model: f.Model}
	for _, in := range f.Inputs {
		module.Inputs = append(module.Inputs, pipelines.Binding{Name: in.Name})
	}
	at.model = executors.Model{Module: module}
	at.signature = pipelines.Signature{Inputs: f.Inputs, Outputs: []pipelines.Port{{Name: answerPort, Datatype: "FP32", Shape: []int64{1}}}}
	if f.Model == "" {
		if h.options.Pace == PaceShare {
			return fmt.Errorf("provider: function %q has no model, so how long it takes on a share of a core is unknown; give it one, or take the profile's pace", f.Name)
		}
		at.model.Outputs = []string{answerPort}
		at.engine = emulated.New(emulated.Options{Echo: true, Duration: func(executors.Model, int) time.Duration { return 0 }})
		return nil
	}
	engine, err := (&executors.Host{Name: "provider", Engines: h.options.Engines}).EngineFor(module)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	signature, err := executors.Signatures(h.options.Engines...)(module)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	at.engine = engine
	if len(f.Inputs) > 0 && len(signature.Inputs) > 0 && !slices.EqualFunc(f.Inputs, signature.Inputs, fits) {
		return fmt.Errorf("provider: function %q declares the inputs %v, but its model takes %v", f.Name, f.Inputs, signature.Inputs)
	}
	if len(signature.Outputs) > 0 {
		at.signature = signature
		at.model.Outputs = nil
		for _, o := range signature.Outputs {
			at.model.Outputs = append(at.model.Outputs, o.Name)
		}
	}
	return nil
}

// fits reports whether a declared input is the model's.
func fits(declared, model pipelines.Port) bool {
	return declared.Name == model.Name && declared.Datatype == model.Datatype && wire.ShapeFits(model.Shape, declared.Shape)
}

// draw is how long a batch takes by the profile.
func (h *Host) draw(o functions.Offer) time.Duration {
	if h.options.Steady {
		return time.Duration(o.Avg * float64(time.Second))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	average, longest := time.Duration(o.Avg*float64(time.Second)), time.Duration(o.Max*float64(time.Second))
	return simulate.DrawLatency(h.noise, average, longest)
}

// find is the function that the path names; nil where there is none, or not any more.
func (h *Host) find(path string) *deployed {
	d := h.lookup(path)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deleted {
		return nil
	}
	return d
}

// lookup is what the path names, made when it is named for the first time; nil where
// nothing of the kind is on offer. What has to be created first is not there yet.
func (h *Host) lookup(path string) *deployed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.deployed[path]; d != nil {
		return d
	}
	for i := range h.places {
		at := &h.places[i]
		size, ok := at.parse(path)
		if !ok {
			continue
		}
		if _, ok := at.problem.Find(size, 1); !ok {
			continue
		}
		d := &deployed{host: h, place: at, path: path, size: size, limit: h.limit(at), deleted: at.problem.Provider.Manage}
		d.bill = Item{Name: path[lastSlash(path)+1:], Function: size.Function, Platform: size.Platform, VCPU: size.VCPU, GPUMemory: size.GPUMemory}
		h.deployed[path] = d
		return d
	}
	return nil
}

// limit is how many instances of one size there may be.
func (h *Host) limit(at *place) int {
	if h.options.Limit > 0 {
		return h.options.Limit
	}
	return at.problem.Provider.CallConcurrency()
}

// expireIdle lets idle instances go.
func (h *Host) expireIdle() {
	tick := time.NewTicker(max(h.options.Keep/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		var all []*deployed
		for _, d := range h.deployed {
			all = append(all, d)
		}
		h.mu.Unlock()
		for _, d := range all {
			d.expire(time.Now().Add(-h.options.Keep))
		}
	}
}

// Close ends the instances; calls under way fail.
func (h *Host) Close() error {
	h.end()
	h.tidying.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deployed {
		d.running.Wait()
		d.expire(time.Now().Add(time.Hour))
	}
	return nil
}

// place is where a function of any size is called.
type place struct {
	problem   functions.Problem
	pattern   *regexp.Regexp
	engine    executors.Engine
	model     executors.Model
	signature pipelines.Signature // for one request
}

// newPlace reads the provider's URL template backwards: which path means which
// size.
func newPlace(p functions.Problem) (*place, error) {
	cloud := &p.Provider
	if _, err := cloud.CallURL(pipelines.FunctionSize{}); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	path := "/"
	if _, rest, ok := strings.Cut(cloud.URL, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			path = strings.TrimSuffix(rest[i:], "/")
		}
	}
	known := map[string]string{
		"provider": regexp.QuoteMeta(cloud.Name), "function": regexp.QuoteMeta(p.Function.Name), "platform": "cpu|gpu",
		"size": number, "vcpu": number, "gpu_memory": number, "batch": "[0-9]+",
	}
	var b strings.Builder
	seen := map[string]bool{}
	for rest := path; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			b.WriteString(regexp.QuoteMeta(rest))
			break
		}
		end := open + strings.IndexByte(rest[open:], '}')
		name := rest[open+1 : end]
		b.WriteString(regexp.QuoteMeta(rest[:open]) + "(?P<" + name + ">" + known[name] + ")")
		seen[name], rest = true, rest[end+1:]
	}
	if sized := seen["size"] && seen["platform"] || seen["vcpu"] && seen["gpu_memory"]; !sized {
		return nil, fmt.Errorf("provider: the url of provider %q does not name in its path what is called; write .../{function}-{platform}-{size}", cloud.Name)
	}
	return &place{problem: p, pattern: regexp.MustCompile("^" + b.String() + "$")}, nil
}

const number = `[0-9]+(?:\.[0-9]+)?`

// parse reads the size that a path names.
func (at *place) parse(path string) (s pipelines.FunctionSize, ok bool) {
	parts := at.pattern.FindStringSubmatch(path)
	if parts == nil {
		return s, false
	}
	s.Function = at.problem.Function.Name
	size := 0.0
	for i, name := range at.pattern.SubexpNames() {
		x, _ := strconv.ParseFloat(parts[i], 64) // words are 0
		switch name {
		case "platform":
			s.Platform = parts[i]
		case "size":
			size = x
		case "vcpu":
			s.VCPU = x
		case "gpu_memory":
			s.GPUMemory = x
		}
	}
	switch {
	case s.Platform == "" && s.GPUMemory > 0:
		s.Platform = "gpu"
	case s.Platform == "":
		s.Platform = "cpu"
	case s.Platform == "cpu" && size > 0:
		s.VCPU = size
	case size > 0:
		s.GPUMemory = size
	}
	return s, true
}

func lastSlash(path string) int { return strings.LastIndexByte(path, '/') }
