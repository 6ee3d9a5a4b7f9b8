package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	"github.com/harpagon/harpagon/wire/secure"
)

// Options of the engine. The zero value is ready to use.
type Options struct {
	LoadTimeout  time.Duration // until the model is ready; 0 means 30 s
	Timeout      time.Duration // of one request, where the address sets none; 0 means 1 min
	HealthPeriod time.Duration // between questions whether the model is ready; 0 means 5 s
	MaxAnswer    int           // bytes of an answer; 0 means 256 MiB
}

// The defaults of Options.
const (
	defaultLoadTimeout  = 30 * time.Second
	defaultTimeout      = time.Minute
	defaultHealthPeriod = 5 * time.Second
	defaultMaxAnswer    = 256 << 20
)

func (o Options) withDefaults() Options {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&o.LoadTimeout, defaultLoadTimeout)
	orElse(&o.Timeout, defaultTimeout)
	orElse(&o.HealthPeriod, defaultHealthPeriod)
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = defaultMaxAnswer
	}
	return o
}

// New returns the engine "remote".
func New(o Options) executors.Engine {
	return &engine{options: o.withDefaults(), known: make(map[string]remembered)}
}

type engine struct {
	options Options

	mu    sync.Mutex
	known map[string]remembered // by address, whether there are batches, and constants
}

// remembered is a server's metadata of a model, or that it did not answer.
type remembered struct {
	signature pipelines.Signature
	until     time.Time
}

// Name is "remote".
func (e *engine) Name() string { return pipelines.EngineRemote }

// Version changes with how requests are sent.
func (e *engine) Version() string { return "1" }

// LoadsOnce reports that all batch sizes are measured on one instance.
func (e *engine) LoadsOnce() {}

// How long Signature waits for the answer, and how long it caches it.
const (
	askTime      = time.Second
	rememberTime = 10 * time.Second
)

// Signature reads the server's metadata, with a short timeout. It is empty where the server
// does not answer: a declaration can be checked and planned without it.
func (e *engine) Signature(m pipelines.Module) (pipelines.Signature, error) {
	address, err := pipelines.ParseRemote(m.Model)
	if err != nil {
		return pipelines.Signature{}, fmt.Errorf("executors/remote: module %q: %w", m.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := fmt.Sprintf("%s %v %v", m.Model, m.Unbatched, constants(m))
	if r, ok := e.known[key]; ok && time.Now().Before(r.until) {
		return r.signature, nil
	}
	r := remembered{signature: e.ask(address, m), until: time.Now().Add(rememberTime)}
	e.known[key] = r
	return r.signature, nil
}

// ask reads the whole signature, with the inputs that are constant.
func (e *engine) ask(address pipelines.Remote, m pipelines.Module) (sig pipelines.Signature) {
	t, err := dial(address, &e.options)
	if err != nil {
		return sig
	}
	defer t.Server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	meta, err := t.Server.Metadata(ctx, t.Model, t.Version)
	if err != nil {
		return sig
	}
	in := &Instance{target: t}
	if in.describe(meta, pipelines.Module{Unbatched: m.Unbatched, Inputs: constants(m)}, nil) != nil {
		return sig
	}
	sig = in.sent
	for _, p := range meta.Inputs {
		if slices.ContainsFunc(in.whole, func(t wire.NamedTensor) bool { return t.Name == p.Name }) {
			sig.Inputs = append(sig.Inputs, p)
		}
	}
	return sig
}

// constants are the bindings of a module that are constant.
func constants(m pipelines.Module) (all []pipelines.Binding) {
	for _, b := range m.Inputs {
		if b.IsConstant() {
			all = append(all, b)
		}
	}
	return all
}

// Load waits for the model and warms it up.
func (e *engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	address, err := pipelines.ParseRemote(m.Module.Model)
	if err != nil {
		return nil, err
	}
	t, err := dial(address, &e.options)
	if err != nil {
		return nil, err
	}
	in, err := Attach(ctx, t, m, e.options)
	if err != nil {
		return nil, err
	}
	return in, nil
}

// Server is a client of one model server. Those of package wire/oip are.
type Server interface {
	Live(ctx context.Context) error
	Ready(ctx context.Context, model, version string) (bool, error)
	Metadata(ctx context.Context, model, version string) (*wire.Metadata, error)
	Infer(ctx context.Context, q *wire.InferRequest, version string) (*wire.InferResponse, error)
	Close() error
}

// Target is a model on a server.
type Target struct {
	Server  Server
	Where   string // of the server, for errors
	Model   string
	Version string // empty leaves it to the server
	Batch   string // pipelines.BatchStack, pipelines.BatchSingle, or empty: derived from the shapes
	Timeout time.Duration
	Here    bool // it is on this machine, so that memory can be shared with it
}

// dial makes a client for the address. Nothing is sent yet.
func dial(r pipelines.Remote, o *Options) (Target, error) {
	t := Target{Where: r.Scheme + "://" + r.Host, Model: r.Model, Version: r.Version, Batch: r.Batch, Timeout: r.Timeout}
	token := ""
	if r.TokenVariable != "" {
		if token = os.Getenv(r.TokenVariable); token == "" {
			return t, fmt.Errorf("the environment variable %s, which is to hold the token of %s, is empty", r.TokenVariable, t.Where)
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if token != "" && !strings.HasSuffix(r.Scheme, "s") && !secure.Loopback(host) {
		return t, fmt.Errorf("the token of %s would travel without TLS, for everybody on the way to read; name the server as %ss://", t.Where, r.Scheme)
	}
	t.Here = secure.Loopback(host)
	if !strings.HasPrefix(r.Scheme, "grpc") {
		t.Server = oip.NewClient(oip.ClientOptions{URL: t.Where, Token: token, MaxAnswer: int64(o.MaxAnswer)})
		return t, nil
	}
	options := oipgrpc.ClientOptions{Address: r.Host, Token: token, MaxAnswer: o.MaxAnswer}
	if r.Scheme == "grpcs" {
		options.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	client, err := oipgrpc.NewClient(options)
	t.Server = client
	return t, err
}
