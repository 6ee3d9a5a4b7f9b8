package serverless

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// InvokerOptions of an Invoker. The zero value is what serving uses.
type InvokerOptions struct {
	Client *http.Client                               // nil makes one that keeps connections
	Getenv func(name string) string                   // where tokens are; nil means os.Getenv
	Sleep  func(context.Context, time.Duration) error // between attempts; nil waits
	Allow  []string                                   // HOST or HOST:PORT of providers that may be called; none allow all
}

// Invoker calls functions over HTTP. It may be used from many goroutines.
type Invoker struct {
	client *http.Client
	getenv func(string) string
	sleep  func(context.Context, time.Duration) error
	allow  []string
	called sync.Map // addresses that have answered before
}

// connections is how many idle connections to one provider are kept.
const connections = 256

// NewInvoker makes an Invoker.
func NewInvoker(o InvokerOptions) *Invoker {
	i := &Invoker{client: o.Client, getenv: o.Getenv, sleep: o.Sleep, allow: o.Allow}
	if i.client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
		t.DisableCompression = true
		// A redirect would carry a token to another host, and a batch twice over
		// the network: the declaration names the right address.
		i.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if i.getenv == nil {
		i.getenv = os.Getenv
	}
	if i.sleep == nil {
		i.sleep = osutil.SleepTimer
	}
	return i
}

// Close lets go of idle connections.
func (i *Invoker) Close() { i.client.CloseIdleConnections() }

// Target is one function of one size.
type Target struct {
	URL   string
	Offer functions.Offer // what it is billed by

	invoker  *Invoker
	provider pipelines.Provider
	name     string // of the function, for errors
	token    string

	binary atomic.Bool // the provider knows the binary extension
}

// Target makes the target of a group. The error says which setting is missing.
func (i *Invoker) Target(d functions.Deployment, group int) (*Target, error) {
	at, err := d.URL(group)
	if err != nil {
		return nil, fmt.Errorf("invoke: function %q: %w", d.Function.Name, err)
	}
	// A declaration names the address and the variable of the token that goes there.
	if to, ok := secure.Leads(at, i.allow); !ok {
		return nil, fmt.Errorf("invoke: provider %q of function %q is at %s, which this gateway does not allow; start it with --allow-address %s if that is to be trusted", d.Provider.Name, d.Function.Name, to, to)
	}
	t := &Target{URL: at, Offer: d.Plan.Groups[group].Offer, invoker: i, provider: d.Provider, name: d.Function.Name}
	if v := d.Provider.TokenVariable; v != "" {
		if t.token = i.getenv(v); t.token == "" {
			return nil, fmt.Errorf("invoke: provider %q asks for a token; set the environment variable %s where the gateway runs", d.Provider.Name, v)
		}
		if strings.ContainsAny(t.token, "\r\n") {
			return nil, fmt.Errorf("invoke: the environment variable %s holds a line break, which no token has", v)
		}
	}
	return t, nil
}

// ErrUnknown says that a provider does not describe its functions.
var ErrUnknown = errors.New("invoke: the provider does not describe the function")

// Describe asks the provider what the function takes and gives, for one
// request, and whether it knows the binary extension. The error wraps
// ErrUnknown where it answers something else, which keeps nobody from calling
// the function.
func (t *Target) Describe(ctx context.Context) (*wire.Metadata, error) {
	body, err := t.get(ctx, t.URL)
	if err != nil {
		return nil, err
	}
	m, err := oip.DecodeMetadata(body)
	if err != nil || m.Pipeline == "" || len(m.Inputs) == 0 {
		return nil, fmt.Errorf("%w at %s", ErrUnknown, t.URL)
	}
	if base, _, ok := strings.Cut(t.URL, "/v2/"); ok {
		if about, err := t.get(ctx, base+"/v2"); err == nil && strings.Contains(string(about), `"binary_tensor_data"`) {
			t.binary.Store(true)
		}
	}
	m.Inputs, m.Outputs = unbatched(m.Inputs), unbatched(m.Outputs)
	return m, nil
}

// unbatched takes the first dimension off ports that have one for the batch.
func unbatched(ports []pipelines.Port) []pipelines.Port {
	all := make([]pipelines.Port, len(ports))
	for i, p := range ports {
		if all[i] = p; len(p.Shape) > 0 && p.Shape[0] < 0 {
			all[i].Shape = p.Shape[1:]
		}
	}
	return all
}

func (t *Target) get(ctx context.Context, at string) ([]byte, error) {
	const enough = 1 << 20
	answer, err := oip.Do(ctx, t.invoker.client, oip.HTTPRequest{Method: http.MethodGet, URL: at, Token: t.token, MaxAnswer: enough})
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers %d %s", ErrUnknown, at, answer.Status, http.StatusText(answer.Status))
	}
	return answer.Body, nil
}
