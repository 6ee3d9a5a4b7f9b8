package serverless

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// A provider with manage = true has the functions that it was told to have, and
// answers 404 for others. The host is its Provisioner.
var _ Provisioner = (*Host)(nil)

// Create makes a function ready, its warm instances included.
func (h *Host) Create(ctx context.Context, m functions.Managed) error { return h.Resize(ctx, m) }

// Resize changes a function, or makes it.
func (h *Host) Resize(ctx context.Context, m functions.Managed) error {
	d, err := h.declared(m)
	if err != nil {
		return err
	}
	if m.Concurrency < 1 {
		return fmt.Errorf("%w: %s shall run %d calls at once", ErrRefused, m.Name, m.Concurrency)
	}
	d.mu.Lock()
	d.managed, d.deleted = m, false
	d.limit = min(m.Concurrency, h.limit(d.place)) // whoever asks cannot start more
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

// declared is the function of the size that is asked for, whether it is there or not.
func (h *Host) declared(m functions.Managed) (*deployed, error) {
	for i := range h.places {
		p := &h.places[i].problem
		at, err := p.Provider.CallURL(m.FunctionSize)
		if m.Function != p.Function.Name || err != nil || !p.Provider.Manage {
			continue
		}
		if at[strings.LastIndexByte(at, '/')+1:] != m.Name {
			return nil, fmt.Errorf("%w: a function of that size is called %s, not %s", ErrRefused, at[strings.LastIndexByte(at, '/')+1:], m.Name)
		}
		_, rest, _ := strings.Cut(at, "://")
		if d := h.lookup(rest[strings.IndexByte(rest, '/'):]); d != nil {
			return d, nil
		}
		return nil, fmt.Errorf("%w: %s is not on offer", ErrRefused, m.Name)
	}
	return nil, fmt.Errorf("%w: function %q is not one that is managed here", ErrRefused, m.Function)
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
func (h *Host) Describe(_ context.Context, function string) ([]Described, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Described
	for _, d := range h.deployed {
		d.mu.Lock()
		if !d.deleted && d.managed.Function == function {
			all = append(all, Described{Managed: d.managed, State: Ready})
		}
		d.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Described) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// routeManaging answers the hook of a Provisioner.
func (h *Host) routeManaging() {
	h.mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		all, err := h.Describe(r.Context(), r.URL.Query().Get("function"))
		list := List{Functions: []Function{}}
		for _, d := range all {
			list.Functions = append(list.Functions, written(d))
		}
		h.reply(w, list, err)
	})
	h.mux.HandleFunc("PUT "+Path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		var f Function
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&f)
		if err == nil && f.Name != r.PathValue("name") {
			err = fmt.Errorf("the address names %s, and the body %s", r.PathValue("name"), f.Name)
		}
		if err == nil {
			err = h.Resize(r.Context(), f.Read().Managed)
		}
		h.reply(w, f, err)
	})
	h.mux.HandleFunc("DELETE "+Path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
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
