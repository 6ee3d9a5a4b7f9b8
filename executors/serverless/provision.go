package serverless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// State of a function at its provider.
type State string

// The states.
const (
	Ready   State = "ready"
	Pending State = "pending"
	Failed  State = "failed"
)

// Described is what a provider reports of one function.
type Described struct {
	functions.Managed
	State  State
	Reason string // when it has failed
}

// Provisioner creates, resizes, deletes and lists functions at a provider. Every call may be
// repeated. An error that wraps ErrRefused will be the same next time.
type Provisioner interface {
	Create(ctx context.Context, m functions.Managed) error
	Resize(ctx context.Context, m functions.Managed) error
	Delete(ctx context.Context, name string) error
	// Describe lists what there is of a function, of all sizes.
	Describe(ctx context.Context, function string) ([]Described, error)
}

// ErrRefused means that the provider refuses the request.
var ErrRefused = errors.New("provision: the provider refuses")

// pollEvery is how often it is checked whether what a provider began is ready.
const pollEvery = 500 * time.Millisecond

// Ensure brings the provider to what is wanted of one function, and waits until all of
// it is ready. It returns what it did, also when it failed on the way.
func Ensure(ctx context.Context, p Provisioner, function string, want []functions.Managed) (functions.Managing, error) {
	var todo functions.Managing
	has, err := p.Describe(ctx, function)
	if err != nil {
		return todo, fmt.Errorf("provision: the provider does not list function %q: %w", function, err)
	}
	var sound []functions.Managed
	for _, d := range has {
		if d.State != Failed {
			sound = append(sound, d.Managed)
			continue
		}
		if err := p.Delete(ctx, d.Name); err != nil { // and make it again, where it is wanted
			return todo, fmt.Errorf("provision: delete %s, which failed: %w", d.Name, err)
		}
	}
	todo = functions.Manage(want, sound)
	for _, m := range todo.Create {
		if err := p.Create(ctx, m); err != nil {
			return todo, fmt.Errorf("provision: create %s: %w", m.Name, err)
		}
	}
	for _, m := range todo.Resize {
		if err := p.Resize(ctx, m); err != nil {
			return todo, fmt.Errorf("provision: resize %s: %w", m.Name, err)
		}
	}
	for _, m := range todo.Delete {
		if err := p.Delete(ctx, m.Name); err != nil {
			return todo, fmt.Errorf("provision: delete %s: %w", m.Name, err)
		}
	}
	if len(todo.Create)+len(todo.Resize) == 0 {
		return todo, nil
	}
	return todo, ready(ctx, p, function, want)
}

// ready waits until everything that is wanted is ready.
func ready(ctx context.Context, p Provisioner, function string, want []functions.Managed) error {
	for {
		has, err := p.Describe(ctx, function)
		if err != nil {
			return fmt.Errorf("provision: wait for function %q: %w", function, err)
		}
		state := map[string]Described{}
		for _, d := range has {
			state[d.Name] = d
		}
		waits := ""
		for _, m := range want {
			switch d, ok := state[m.Name]; {
			case ok && d.State == Failed:
				return fmt.Errorf("%w: %s has failed: %s", ErrRefused, m.Name, cmp.Or(d.Reason, "it gives no reason"))
			case !ok || d.State == Pending:
				waits = m.Name
			}
		}
		if waits == "" {
			return nil
		}
		if osutil.SleepTimer(ctx, pollEvery) != nil {
			return fmt.Errorf("provision: %s is not ready in time", waits)
		}
	}
}

// Path is where the hook is on the host of a provider's url, unless manage_url is set.
const Path = "/functions"

// Function is one function on the wire.
type Function struct {
	Name        string  `json:"name"`
	Function    string  `json:"function"`
	Platform    string  `json:"platform"` // cpu or gpu
	VCPU        float64 `json:"vcpu,omitempty"`
	GPUMemory   float64 `json:"gpu_memory_gb,omitempty"`
	Memory      float64 `json:"memory_gb,omitempty"` // host memory, where it is billed
	Batch       int     `json:"batch"`               // largest that it is sent
	Concurrency int     `json:"concurrency"`         // calls that may run at once
	Warm        int     `json:"warm"`                // instances to have started
	State       State   `json:"state,omitempty"`     // empty means ready
	Reason      string  `json:"reason,omitempty"`
}

// List is what GET answers.
type List struct {
	Functions []Function `json:"functions"`
}

// Written is a function as it goes over the wire.
func (d Described) Written() Function {
	return Function{
		Name: d.Name, Function: d.Function, Platform: d.Platform, VCPU: d.VCPU, GPUMemory: d.GPUMemory, Memory: d.Host,
		Batch: d.Batch, Concurrency: d.Concurrency, Warm: d.Warm, State: d.State, Reason: d.Reason,
	}
}

// Read is the function that came over the wire.
func (f Function) Read() Described {
	size := pipelines.FunctionSize{Function: f.Function, Platform: f.Platform, VCPU: f.VCPU, GPUMemory: f.GPUMemory, Batch: f.Batch}
	return Described{
		Managed: functions.Managed{Name: f.Name, FunctionSize: size, Host: f.Memory, Concurrency: f.Concurrency, Warm: f.Warm},
		State:   cmp.Or(f.State, Ready), Reason: f.Reason,
	}
}

// Hook is a Provisioner over HTTP.
type Hook struct {
	url    string
	token  string
	client *http.Client
}

// HookOptions of a hook. The zero value allows every provider.
type HookOptions struct {
	Client *http.Client             // nil takes one without time-outs of its own
	Getenv func(name string) string // where tokens are; nil means os.Getenv
	Allow  []string                 // HOST or HOST:PORT of providers that may be called; none allow all
}

// NewHook makes the hook of a provider.
func NewHook(p *pipelines.Provider, o HookOptions) (*Hook, error) {
	at := p.ManageURL
	if at == "" {
		scheme, rest, _ := strings.Cut(p.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		at = scheme + "://" + host + Path
	}
	// A declaration names the address and the variable of the token that goes there.
	if to, ok := secure.AllowedAddress(at, o.Allow); !ok {
		return nil, fmt.Errorf("%w: provider %q has its functions made at %s, which this control role does not allow; start it with --allow-address %s if that is to be trusted", ErrRefused, p.Name, to, to)
	}
	h := &Hook{url: strings.TrimSuffix(at, "/"), client: o.Client}
	if h.client == nil {
		h.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if v := p.TokenVariable; v != "" {
		if h.token = getenv(v); h.token == "" {
			return nil, fmt.Errorf("%w: provider %q requires a token; set the environment variable %s where the control role runs, too", ErrRefused, p.Name, v)
		}
	}
	return h, nil
}

// Bounds of one message of the hook.
const (
	messageTime = 30 * time.Second
	maxList     = 16 << 20 // bytes
)

// Create is Resize: PUT does either.
func (h *Hook) Create(ctx context.Context, m functions.Managed) error { return h.Resize(ctx, m) }

// Resize sends the function with its new size.
func (h *Hook) Resize(ctx context.Context, m functions.Managed) error {
	body, err := json.Marshal(Described{Managed: m}.Written())
	if err != nil {
		return err
	}
	_, err = h.do(ctx, http.MethodPut, "/"+url.PathEscape(m.Name), body)
	return err
}

// Delete deletes the function; one that is not there is deleted.
func (h *Hook) Delete(ctx context.Context, name string) error {
	_, err := h.do(ctx, http.MethodDelete, "/"+url.PathEscape(name), nil)
	return err
}

// Describe lists what there is of a function.
func (h *Hook) Describe(ctx context.Context, function string) ([]Described, error) {
	body, err := h.do(ctx, http.MethodGet, "?function="+url.QueryEscape(function), nil)
	if err != nil {
		return nil, err
	}
	var list List
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: %s answers no list of functions: %v", ErrRefused, h.url, err)
	}
	var all []Described
	for _, f := range list.Functions {
		if f.Function == function { // whatever else it lists is not ours to touch
			d := f.Read()
			d.Reason = oip.HideToken(d.Reason, h.token)
			all = append(all, d)
		}
	}
	return all, nil
}

func (h *Hook) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTime)
	defer cancel()
	answer, err := oip.Do(ctx, h.client, oip.HTTPRequest{Method: method, URL: h.url + path, Token: h.token, Body: body, Header: -1, MaxAnswer: maxList})
	switch {
	case answer == nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s has not answered within %v", h.url, messageTime)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be reached: %w", h.url, err)
	case answer.Status/100 == 2, method == http.MethodDelete && answer.Status == http.StatusNotFound:
		return answer.Body, nil
	case answer.Status == http.StatusTooManyRequests || answer.Status >= 500:
		return nil, fmt.Errorf("%s answers %s: %s", h.url, http.StatusText(answer.Status), refusalText(answer.Body))
	}
	return nil, fmt.Errorf("%w: %s answers %d: %s", ErrRefused, h.url, answer.Status, refusalText(answer.Body))
}

// refusalText is why a provider refuses, as far as it can be read.
func refusalText(body []byte) string {
	var e struct{ Error string }
	if json.Unmarshal(body, &e) == nil && e.Error != "" {
		return e.Error
	}
	const most = 300
	return strings.TrimSpace(string(body[:min(len(body), most)]))
}
