package serverless

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// Defaults of Options.
const (
	DefaultMaxInFlight = 8192
	DefaultMargin      = 10 * time.Millisecond
	DefaultSpan        = 30 * time.Second
)

// Options configures a Server. The zero value is what serving uses.
type Options struct {
	Invoker     *invoke.Invoker  // nil makes one
	MaxInFlight int              // requests of one function under way; one more is refused; 0 means DefaultMaxInFlight
	Margin      time.Duration    // by which batches leave before their timeouts; 0 means DefaultMargin, below 0 none
	Span        time.Duration    // that measured rates look back on; 0 means DefaultSpan
	Observer    gateway.Observer // told as a gateway's is; FUNCTION/APPLICATION stands for the pipeline
}

// Server serves functions. All methods may be called from many goroutines.
type Server struct {
	options   Options
	epoch     time.Time
	life      context.Context // of calls
	end       context.CancelFunc
	calls     sync.WaitGroup
	mu        sync.Mutex // of changes to functions
	functions atomic.Pointer[map[string]*function]
}

// New makes a server that serves nothing yet.
func New(o Options) *Server {
	if o.Invoker == nil {
		o.Invoker = invoke.New(invoke.Options{})
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Margin == 0 {
		o.Margin = DefaultMargin
	}
	if o.Span <= 0 {
		o.Span = DefaultSpan
	}
	s := &Server{options: o, epoch: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	s.functions.Store(&map[string]*function{})
	return s
}

// now is the time on the server's clock; never 0, which means none.
func (s *Server) now() dispatch.Time { return time.Since(s.epoch) + 1 }

func (s *Server) function(name string) *function { return (*s.functions.Load())[name] }

// Serves says whether the name is that of a function served here, or of one of
// its applications.
func (s *Server) Serves(name string) bool {
	function, _, _ := strings.Cut(name, "/")
	return s.function(function) != nil
}

// Pipelines lists FUNCTION/APPLICATION of all that is served, in order.
func (s *Server) Pipelines(context.Context) ([]string, error) {
	var all []string
	for _, f := range *s.functions.Load() {
		f.mu.Lock()
		for _, a := range f.current.apps {
			all = append(all, f.name+"/"+a.name)
		}
		f.mu.Unlock()
	}
	slices.Sort(all)
	return all, nil
}

// Metadata describes a function, or one of its applications. It is not ready
// while its provider cannot be reached.
func (s *Server) Metadata(_ context.Context, name string) (*wire.Metadata, error) {
	function, application, _ := strings.Cut(name, "/")
	f := s.function(function)
	if f == nil {
		return nil, wire.Errorf(wire.CodeNotFound, "", "function %q is not served here", function)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.current
	m := &wire.Metadata{
		Pipeline: name, Generation: g.deployment.Generation, Ready: f.unreachable == "", Reason: f.unreachable,
		Inputs: slices.Clone(g.inputs), Outputs: slices.Clone(g.outputs),
	}
	for _, a := range g.apps {
		m.Applications = append(m.Applications, pipelines.Application{Name: a.name, SLO: a.slo, Rate: a.rate})
		m.SLO = max(m.SLO, a.slo)
	}
	if application != "" {
		a := g.app(application)
		if a == nil {
			return nil, g.noApplication(f.name, application)
		}
		m.SLO, m.Applications = a.slo, nil
	}
	return m, nil
}

// Close ends calls under way and fails what waits.
func (s *Server) Close() {
	s.end()
	for _, f := range *s.functions.Load() {
		f.close()
	}
	s.calls.Wait()
	s.options.Invoker.Close()
}

func (s *Server) store(change func(map[string]*function)) {
	all := maps.Clone(*s.functions.Load())
	change(all)
	s.functions.Store(&all)
}
