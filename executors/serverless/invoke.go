package serverless

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
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

	binary atomic.Bool // the provider supports the binary extension
}

// Target makes the target of a group. The error names the setting that is missing.
func (i *Invoker) Target(d functions.Deployment, group int) (*Target, error) {
	at, err := d.URL(group)
	if err != nil {
		return nil, fmt.Errorf("invoke: function %q: %w", d.Function.Name, err)
	}
	// A declaration names the address and the variable of the token that goes there.
	if to, ok := secure.AllowedAddress(at, i.allow); !ok {
		return nil, fmt.Errorf("invoke: provider %q of function %q is at %s, which this gateway does not allow; start it with --allow-address %s if that is to be trusted", d.Provider.Name, d.Function.Name, to, to)
	}
	t := &Target{URL: at, Offer: d.Plan.Groups[group].Offer, invoker: i, provider: d.Provider, name: d.Function.Name}
	if v := d.Provider.TokenVariable; v != "" {
		if t.token = i.getenv(v); t.token == "" {
			return nil, fmt.Errorf("invoke: provider %q requires a token; set the environment variable %s where the gateway runs", d.Provider.Name, v)
		}
		if strings.ContainsAny(t.token, "\r\n") {
			return nil, fmt.Errorf("invoke: the environment variable %s holds a line break, which no token has", v)
		}
	}
	return t, nil
}

// ErrUnknown means that a provider does not describe its functions.
var ErrUnknown = errors.New("invoke: the provider does not describe the function")

// Describe reads from the provider what the function takes and gives, for one request, and
// whether it supports the binary extension. The error wraps ErrUnknown where the answer is
// something else; the function can be called all the same.
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

// Batch is one call: the requests, each with the same names, datatypes and
// shapes in the same order.
type Batch struct {
	Items  [][]wire.NamedTensor
	Latest time.Time // the latest deadline among the requests; zero for none
}

// Kind classifies why a call failed. Errors are counted by it.
type Kind string

// The kinds. Any other HTTP status is "status N".
const (
	Unreachable Kind = "unreachable" // no connection
	Broken      Kind = "broken"      // the connection ended before the answer
	TimedOut    Kind = "timeout"     // longer than the provider's time-out
	Throttled   Kind = "throttled"   // 429 or 503
	Garbage     Kind = "garbage"     // an answer that is none of the protocol
	Misshapen   Kind = "misshapen"   // not one answer a request
	Unsendable  Kind = "unsendable"  // the requests do not fit together, or into JSON
	Stopped     Kind = "stopped"     // the gateway ended the call
)

// Outcome is what came of a call.
type Outcome struct {
	Items [][]wire.NamedTensor // one answer a request; nil when Err is set
	Err   *wire.Error
	Kind  Kind // when Err is set

	Attempts  int           // how often it was sent
	Ran       bool          // the provider has run it, as far as is known, and bills it
	Cold      bool          // after a cold start
	Estimated bool          // Run is this side's clock
	Run       time.Duration // of the function
	Init      time.Duration // of the cold start, where the provider reports it
	Billed    time.Duration // Run, as the provider rounds it
	Cost      float64       // money, by the declared terms
	Charged   float64       // money, as the provider states; Told reports whether it does
	Told      bool
	Elapsed   time.Duration // from the first attempt to the end
}

// backoff between attempts to connect: it doubles.
const backoff = 50 * time.Millisecond

// Call sends the batch and waits for its end. ctx ends it early.
func (t *Target) Call(ctx context.Context, b Batch) Outcome {
	begin := time.Now()
	var out Outcome
	body, header, err := t.encode(b)
	if err != nil {
		out.fail(Unsendable, wire.CodeInvalid, "%v", err)
		return out
	}
	for pause := backoff; ; pause *= 2 {
		out.Attempts++
		again := t.attempt(ctx, b, body, header, &out)
		if out.Err == nil || again < 0 || out.Attempts >= t.provider.CallAttempts() {
			break
		}
		rest := max(again, pause)
		if t.pointless(b, rest) || t.invoker.sleep(ctx, rest) != nil {
			break
		}
		out.Err, out.Kind = nil, ""
	}
	out.Elapsed = time.Since(begin)
	if out.Ran {
		out.Billed, out.Cost = functions.Bill(&t.provider, t.Offer, out.Run)
	}
	return out
}

// pointless reports that no request of the batch could be answered in time after
// another wait.
func (t *Target) pointless(b Batch, rest time.Duration) bool {
	average := time.Duration(t.Offer.Avg * float64(time.Second))
	return !b.Latest.IsZero() && time.Now().Add(rest+average).After(b.Latest)
}

func (o *Outcome) fail(kind Kind, code wire.Code, format string, args ...any) {
	o.Kind, o.Err = kind, wire.Errorf(code, "", format, args...)
}

// HeaderCharge is the header in which a provider may state its charge for a call.
const HeaderCharge = "Harpagon-Charge"

// never is what attempt returns for a call that must not be sent again.
const never = -1

// attempt sends the call once and returns after what time it may be sent again, never when it
// may not.
func (t *Target) attempt(ctx context.Context, b Batch, body []byte, header int, out *Outcome) (again time.Duration) {
	begin := time.Now()
	limit, cancel := context.WithTimeout(ctx, t.provider.CallTimeout())
	defer cancel()
	answer, err := oip.Do(limit, t.invoker.client, oip.HTTPRequest{
		Method: http.MethodPost, URL: t.URL + "/infer", Token: t.token, Body: body, Header: header, MaxAnswer: maxAnswer,
	})
	if answer == nil {
		return t.unanswered(ctx, limit, err, time.Since(begin), out)
	}
	if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable {
		return throttled(answer, out)
	}
	t.account(answer.Header, time.Since(begin), out)
	switch {
	case err != nil && limit.Err() != nil:
		return t.unanswered(ctx, limit, err, time.Since(begin), out)
	case errors.Is(err, oip.ErrTooLong):
		out.fail(Garbage, wire.CodeInternal, "function %s answered more than %d bytes", t.name, maxAnswer)
	case err != nil:
		out.fail(Broken, wire.CodeUnavailable, "the answer of function %s broke off: %v", t.name, err)
	case answer.Status != http.StatusOK:
		t.refused(answer.Status, answer.Body, len(b.Items), out)
	default:
		t.decode(answer, len(b.Items), out)
	}
	return never
}

// unanswered sorts what happened without an answer.
func (t *Target) unanswered(ctx, limit context.Context, err error, took time.Duration, out *Outcome) time.Duration {
	var dial *net.OpError
	switch {
	case ctx.Err() != nil:
		out.ran(took)
		out.fail(Stopped, wire.CodeUnavailable, "the call of function %s was ended", t.name)
	case limit.Err() != nil:
		out.ran(took)
		out.fail(TimedOut, wire.CodeDeadline, "function %s has not answered within %v", t.name, t.provider.CallTimeout())
	case errors.As(err, &dial) && dial.Op == "dial":
		out.fail(Unreachable, wire.CodeUnavailable, "function %s cannot be reached at %s: %v", t.name, t.URL, dial.Err)
		return 0
	default:
		out.ran(took)
		out.fail(Broken, wire.CodeUnavailable, "the connection to function %s ended before its answer: %v", t.name, err)
	}
	return never
}

// ran notes a run that the provider has not reported.
func (o *Outcome) ran(took time.Duration) {
	o.Ran, o.Estimated = true, true
	o.Run = took
}

// throttled reads Retry-After; never where there is none.
func throttled(answer *oip.HTTPAnswer, out *Outcome) time.Duration {
	code := wire.CodeOverloaded
	if answer.Status == http.StatusServiceUnavailable {
		code = wire.CodeUnavailable
	}
	out.fail(Throttled, code, "the provider answers %d %s", answer.Status, http.StatusText(answer.Status))
	said := answer.Header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(said, 64); err == nil && seconds >= 0 && seconds < 86400 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(0, time.Until(at))
	}
	return never
}

// account reads the times that the provider reports; see the package.
func (t *Target) account(h http.Header, took time.Duration, out *Outcome) {
	_, before := t.invoker.called.LoadOrStore(t.URL, true)
	out.ran(took)
	if money, err := strconv.ParseFloat(h.Get(HeaderCharge), 64); err == nil && money >= 0 && !math.IsInf(money, 1) {
		out.Charged, out.Told = money, true
	}
	timing, told := serverTiming(h)
	if !told {
		out.Cold = !before
		return
	}
	if run, ok := timing["run"]; ok {
		out.Run, out.Estimated = run, false
	}
	out.Init, out.Cold = timing["init"]
}

// serverTiming reads the durations of the header Server-Timing by name.
func serverTiming(h http.Header) (map[string]time.Duration, bool) {
	all := map[string]time.Duration{}
	for _, line := range h.Values("Server-Timing") {
		for metric := range strings.SplitSeq(line, ",") {
			parts := strings.Split(metric, ";")
			name := strings.TrimSpace(parts[0])
			for _, p := range parts[1:] {
				key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				ms, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
				if strings.EqualFold(key, "dur") && err == nil && ms >= 0 && ms < 1e9 {
					all[name] = time.Duration(math.Round(ms * float64(time.Millisecond)))
				}
			}
		}
	}
	return all, len(all) > 0
}

// refused makes the error of a status. A batch of one was its caller's to get right; in a
// larger one the fault cannot be attributed.
func (t *Target) refused(status int, answer []byte, n int, out *Outcome) {
	e := decodeError(status, answer)
	if e.Code == wire.CodeInvalid && n > 1 || status == http.StatusUnauthorized || status == http.StatusForbidden ||
		e.Code == wire.CodeNotFound || status < 400 {
		e.Code = wire.CodeInternal
	}
	if notRun(status) {
		out.Ran, out.Run, out.Estimated, out.Cold = false, 0, false, false
	}
	out.fail(Kind(fmt.Sprintf("status %d", status)), e.Code, "function %s answers %d: %s", t.name, status, e.Reason)
}

// notRun is a status of what stands before the function: a redirect, a missing
// token, no such function.
func notRun(status int) bool {
	return status < 400 || status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// maxAnswer bounds the answer of a call, in bytes.
const maxAnswer = 256 << 20

// encode stacks the requests and writes them, as JSON unless the provider supports binary data,
// or JSON cannot carry it. header is -1 for JSON.
func (t *Target) encode(b Batch) (body []byte, header int, err error) {
	var q wire.InferRequest
	rows := make([]wire.Tensor, len(b.Items))
	for j, named := range b.Items[0] {
		for i, item := range b.Items {
			if len(item) != len(b.Items[0]) || item[j].Name != named.Name {
				return nil, 0, fmt.Errorf("the requests of a batch have different inputs")
			}
			rows[i] = item[j].Tensor
		}
		stacked, err := wire.Stack(rows)
		if err != nil {
			return nil, 0, fmt.Errorf("input %q: %s", named.Name, strings.TrimPrefix(err.Error(), "wire: "))
		}
		q.Inputs = append(q.Inputs, wire.NamedTensor{Name: named.Name, Tensor: stacked})
	}
	if !t.binary.Load() {
		if body, err = oip.EncodeRequestJSON(&q, t.provider.CallTimeout()); err == nil {
			return body, -1, nil
		}
	}
	return oip.EncodeRequest(&q, t.provider.CallTimeout())
}

// decode takes the answer apart into one for each of n requests.
func (t *Target) decode(answer *oip.HTTPAnswer, n int, out *Outcome) {
	header, err := answer.JSON()
	var r *wire.InferResponse
	if err == nil {
		r, err = oip.DecodeResponse(answer.Body, header)
	}
	switch {
	case err != nil:
		out.fail(Garbage, wire.CodeInternal, "the answer of function %s cannot be read: %s", t.name, reason(err))
		return
	case len(r.Outputs) == 0:
		out.fail(Garbage, wire.CodeInternal, "the answer of function %s holds no output", t.name)
		return
	}
	items := make([][]wire.NamedTensor, n)
	for _, o := range r.Outputs {
		rows, err := wire.Rows(o.Tensor)
		if err != nil || len(rows) != n {
			out.fail(Misshapen, wire.CodeInternal, "function %s answered %d requests with output %q of shape %v", t.name, n, o.Name, o.Shape)
			return
		}
		for i, row := range rows {
			items[i] = append(items[i], wire.NamedTensor{Name: o.Name, Tensor: row})
		}
	}
	out.Items = items
}

func decodeError(status int, answer []byte) *wire.Error {
	e := oip.DecodeError(status, answer)
	if e.Reason == "" {
		e.Reason = http.StatusText(status)
	}
	return e
}

func reason(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}
