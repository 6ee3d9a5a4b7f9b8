package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// BillPath is where the bill is.
const BillPath = "/billing"

func (h *Host) route() {
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("GET "+BillPath, h.showBill)
	h.mux.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		oip.WriteHTTP(w, []byte(`{"name":"harpagon example provider","version":"1","extensions":["binary_tensor_data"]}`), nil)
	})
	for _, path := range []string{"/v2/health/live", "/v2/health/ready"} {
		h.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			oip.WriteHTTP(w, []byte(`{"live":true,"ready":true}`), nil)
		})
	}
	h.routeManaging()
	h.mux.HandleFunc("GET /", h.describe)
	h.mux.HandleFunc("POST /", h.infer)
}

// ServeHTTP answers the protocol.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve := h.mux.ServeHTTP
	if strings.HasPrefix(r.URL.Path, "/v2/models/") || strings.HasPrefix(r.URL.Path, serverless.Path) {
		serve = oip.Authorized(secure.Credentials{Token: h.options.Token}.Guard(), "the provider", serve)
	}
	serve(w, r)
}

func (h *Host) showBill(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(h.Bill(), "", "  ")
	oip.WriteHTTP(w, append(body, '\n'), err)
}

func unknown(path string) *wire.Error {
	return wire.Errorf(wire.CodeNotFound, "", "no function of the declaration is called at %s", path)
}

// describe is the metadata of a function, and whether it is ready: it always
// is.
func (h *Host) describe(w http.ResponseWriter, r *http.Request) {
	path, ready := strings.CutSuffix(r.URL.Path, "/ready")
	d := h.find(path)
	switch {
	case d == nil:
		oip.WriteError(w, unknown(path))
	case ready:
		oip.WriteHTTP(w, []byte(`{"ready":true}`), nil)
	default:
		s := d.place.signature
		body, err := oip.EncodeMetadata(&wire.Metadata{Pipeline: d.bill.Name, Ready: true, Inputs: batched(s.Inputs), Outputs: batched(s.Outputs)})
		oip.WriteHTTP(w, body, err)
	}
}

// batched puts the batch before the shape of one request.
func batched(ports []pipelines.Port) []pipelines.Port {
	all := make([]pipelines.Port, len(ports))
	for i, p := range ports {
		all[i] = p
		all[i].Shape = append([]int64{-1}, p.Shape...)
	}
	return all
}

func (h *Host) infer(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutSuffix(r.URL.Path, "/infer")
	d := h.find(path)
	if !ok || d == nil {
		oip.WriteError(w, unknown(path))
		return
	}
	call, err := oip.ReadHTTP(w, r, oip.Bounds{Most: h.options.MaxBody})
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	items, err := d.items(call.Request.Inputs)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	done := d.run(items)
	timing := fmt.Sprintf("run;dur=%.3f", quantity.Millis(done.took))
	if done.init > 0 {
		timing = fmt.Sprintf("init;dur=%.3f, %s", quantity.Millis(done.init), timing)
	}
	if done.took > 0 {
		w.Header().Set("Server-Timing", timing)
		w.Header().Set(serverless.HeaderCharge, strconv.FormatFloat(done.cost, 'g', -1, 64))
	}
	if done.err != nil {
		oip.WriteError(w, done.err)
		return
	}
	d.answer(w, r, call, done.answers)
}

// items takes the tensors of a call apart into requests, in the order of the
// signature where there is one.
func (d *deployed) items(inputs []wire.NamedTensor) ([][]wire.Tensor, error) {
	if len(inputs) == 0 {
		return nil, wire.Errorf(wire.CodeInvalid, "", "the call has no inputs")
	}
	n := -1
	var named [][]wire.NamedTensor
	for _, in := range inputs {
		rows, err := wire.Rows(in.Tensor)
		if err != nil {
			return nil, wire.Errorf(wire.CodeInvalid, "", "input %q: %v", in.Name, err)
		}
		if n < 0 {
			n, named = len(rows), make([][]wire.NamedTensor, len(rows))
		}
		if len(rows) != n {
			return nil, wire.Errorf(wire.CodeInvalid, "", "input %q holds %d requests, and the first input %d", in.Name, len(rows), n)
		}
		for i, row := range rows {
			named[i] = append(named[i], wire.NamedTensor{Name: in.Name, Tensor: row})
		}
	}
	if _, fits := d.place.problem.Find(d.size, max(n, 1)); n < 1 || !fits {
		return nil, wire.Errorf(wire.CodeInvalid, "", "a batch of %d does not fit function %s", n, d.bill.Name)
	}
	return d.arrange(named)
}

func (d *deployed) arrange(named [][]wire.NamedTensor) ([][]wire.Tensor, error) {
	items := make([][]wire.Tensor, len(named))
	for i, item := range named {
		if ports := d.place.signature.Inputs; len(ports) > 0 {
			var err *wire.Error
			if items[i], err = wire.Arrange(ports, item, "the function"); err != nil {
				return nil, err
			}
			continue
		}
		for _, t := range item {
			items[i] = append(items[i], t.Tensor)
		}
	}
	return items, nil
}

func (d *deployed) answer(w http.ResponseWriter, r *http.Request, call *oip.Call, answers [][]wire.Tensor) {
	out := wire.InferResponse{ID: call.Request.ID, Pipeline: d.bill.Name}
	for j, port := range d.place.signature.Outputs {
		rows := make([]wire.Tensor, len(answers))
		for i := range answers {
			rows[i] = answers[i][j]
		}
		stacked, err := wire.Stack(rows)
		if err != nil {
			oip.WriteError(w, fmt.Errorf("output %q: %w", port.Name, err))
			return
		}
		out.Outputs = append(out.Outputs, wire.NamedTensor{Name: port.Name, Tensor: stacked})
	}
	oip.WriteAnswer(w, r, call, &out, nil)
}

func typed(err error) *wire.Error {
	if err == nil {
		return nil
	}
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return wire.Errorf(wire.CodeInternal, "", "%v", err)
}

// A provider with manage = true has the functions that were created, and answers 404 for
// others. The host is its Provisioner.
var _ serverless.Provisioner = (*Host)(nil)

// Create makes a function ready, its warm instances included.
func (h *Host) Create(ctx context.Context, m functions.Managed) error { return h.Resize(ctx, m) }

// Resize changes a function, or makes it.
func (h *Host) Resize(ctx context.Context, m functions.Managed) error {
	d, err := h.declared(m)
	if err != nil {
		return err
	}
	if m.Concurrency < 1 {
		return fmt.Errorf("%w: %s shall run %d calls at once", serverless.ErrRefused, m.Name, m.Concurrency)
	}
	d.mu.Lock()
	d.managed, d.deleted = m, false
	d.limit = min(m.Concurrency, h.limit(d.place)) // a request cannot raise it
	lacks := min(m.Warm, d.limit) - d.alive
	d.alive += max(0, lacks)
	d.mu.Unlock()
	var starting sync.WaitGroup
	for range lacks {
		starting.Go(func() { d.warm(h.life) })
	}
	starting.Wait()
	return ctx.Err()
}

// declared is the function of the requested size, whether it is there or not.
func (h *Host) declared(m functions.Managed) (*deployed, error) {
	for i := range h.places {
		p := &h.places[i].problem
		at, err := p.Provider.CallURL(m.FunctionSize)
		if m.Function != p.Function.Name || err != nil || !p.Provider.Manage {
			continue
		}
		if at[strings.LastIndexByte(at, '/')+1:] != m.Name {
			return nil, fmt.Errorf("%w: a function of that size is called %s, not %s", serverless.ErrRefused, at[strings.LastIndexByte(at, '/')+1:], m.Name)
		}
		_, rest, _ := strings.Cut(at, "://")
		if d := h.lookup(rest[strings.IndexByte(rest, '/'):]); d != nil {
			return d, nil
		}
		return nil, fmt.Errorf("%w: %s is not on offer", serverless.ErrRefused, m.Name)
	}
	return nil, fmt.Errorf("%w: function %q is not one that is managed here", serverless.ErrRefused, m.Function)
}

// warm starts one instance that was counted already.
func (d *deployed) warm(ctx context.Context) {
	i, err := d.start(ctx)
	if err != nil {
		d.lose(nil)
		return
	}
	i.used = time.Now()
	d.mu.Lock()
	d.idle = append(d.idle, i)
	d.mu.Unlock()
}

// Delete lets the function go: calls under way end, and others find none.
func (h *Host) Delete(_ context.Context, name string) error {
	h.mu.Lock()
	var gone []*deployed
	for _, d := range h.deployed {
		if d.bill.Name == name && d.place.problem.Provider.Manage {
			gone = append(gone, d)
		}
	}
	h.mu.Unlock()
	for _, d := range gone {
		d.mu.Lock()
		d.deleted = true
		d.mu.Unlock()
		d.running.Wait()
		d.expire(time.Now().Add(time.Hour))
	}
	return nil
}

// Describe lists what there is of a function.
func (h *Host) Describe(_ context.Context, function string) ([]serverless.Described, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []serverless.Described
	for _, d := range h.deployed {
		d.mu.Lock()
		if !d.deleted && d.managed.Function == function {
			all = append(all, serverless.Described{Managed: d.managed, State: serverless.Ready})
		}
		d.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b serverless.Described) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// routeManaging answers the hook of a Provisioner.
func (h *Host) routeManaging() {
	h.mux.HandleFunc("GET "+serverless.Path, func(w http.ResponseWriter, r *http.Request) {
		all, err := h.Describe(r.Context(), r.URL.Query().Get("function"))
		list := serverless.List{Functions: []serverless.Function{}}
		for _, d := range all {
			list.Functions = append(list.Functions, d.Written())
		}
		h.reply(w, list, err)
	})
	h.mux.HandleFunc("PUT "+serverless.Path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		var f serverless.Function
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&f)
		if err == nil && f.Name != r.PathValue("name") {
			err = fmt.Errorf("the address names %s, and the body %s", r.PathValue("name"), f.Name)
		}
		if err == nil {
			err = h.Resize(r.Context(), f.Read().Managed)
		}
		h.reply(w, f, err)
	})
	h.mux.HandleFunc("DELETE "+serverless.Path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		h.reply(w, struct{}{}, h.Delete(r.Context(), r.PathValue("name")))
	})
}

func (h *Host) reply(w http.ResponseWriter, answer any, err error) {
	if err != nil {
		oip.WriteError(w, wire.Errorf(wire.CodeInvalid, "", "%s", err))
		return
	}
	body, err := json.Marshal(answer)
	oip.WriteHTTP(w, body, err)
}
