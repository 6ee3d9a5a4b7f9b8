package provider

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// deployed is one function of one size.
type deployed struct {
	host    *Host
	place   *place
	path    string
	size    pipelines.FunctionSize
	limit   int
	running sync.WaitGroup

	mu      sync.Mutex
	idle    []*instance // the one that was used last stands last
	alive   int
	bill    Item
	managed functions.Managed // as it was created
	deleted bool              // or never created
}

// instance runs one batch at a time.
type instance struct {
	executors.Instance
	used time.Time
}

// run is what came of a batch.
type run struct {
	answers [][]wire.Tensor
	took    time.Duration
	init    time.Duration // of a cold start; 0 where an instance was warm
	cost    float64       // as it is billed
	err     *wire.Error
}

// errBusy is what run answers when no instance is free and none may start.
func errBusy(limit int) *wire.Error {
	return wire.Errorf(wire.CodeOverloaded, "", "%d instances run already, and no more may", limit)
}

// run runs a batch on an idle instance or a new one, to its end whatever the
// caller does meanwhile, and bills it.
func (d *deployed) run(items [][]wire.Tensor) run {
	d.mu.Lock()
	var i *instance
	if n := len(d.idle); n > 0 {
		i, d.idle = d.idle[n-1], d.idle[:n-1]
	} else if d.alive >= d.limit {
		d.bill.Throttled++
		d.mu.Unlock()
		return run{err: errBusy(d.limit)}
	} else {
		d.alive++
	}
	d.running.Add(1)
	d.mu.Unlock()
	defer d.running.Done()

	ctx := d.host.life
	var r run
	if i == nil {
		begin := time.Now()
		var err error
		if i, err = d.start(ctx); err != nil {
			d.lose(nil)
			return run{err: typed(err)}
		}
		r.init = time.Since(begin)
	}
	begin := time.Now()
	answers, err := i.Run(ctx, items)
	r.took = d.pace(ctx, len(items), time.Since(begin))
	r.answers, r.err = answers, typed(err)
	if ctx.Err() != nil {
		r.err = wire.Errorf(wire.CodeUnavailable, "", "the provider is stopping")
	}
	r.cost = d.account(len(items), r)
	if r.err != nil && r.err.Code == wire.CodeUnavailable {
		d.lose(i)
		return r
	}
	d.mu.Lock()
	i.used = time.Now()
	d.idle = append(d.idle, i)
	d.mu.Unlock()
	return r
}

// start is a cold start: the platform's part, then the model's.
func (d *deployed) start(ctx context.Context) (*instance, error) {
	if err := osutil.SleepTimer(ctx, d.host.options.ColdStart); err != nil {
		return nil, err
	}
	m := d.place.model
	for n := 1; ; n++ {
		if _, ok := d.place.problem.Find(d.size, n); !ok {
			break
		}
		m.MaxBatch = n
	}
	m.Batches = []int{m.MaxBatch}
	loaded, err := d.place.engine.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	return &instance{Instance: loaded}, nil
}

// pace lets the time pass that the batch takes beyond what has passed, and returns how long
// it took in all. A sleep that this machine ends late is no time of the function's, and is
// not billed.
func (d *deployed) pace(ctx context.Context, n int, passed time.Duration) time.Duration {
	offer, _ := d.place.problem.Find(d.size, n)
	whole := passed
	switch {
	case d.host.options.Pace == PaceProfile || offer.Platform == functions.GPU:
		whole = max(passed, d.host.draw(offer))
	case offer.VCPU < 1:
		whole = time.Duration(float64(passed) / offer.VCPU)
	}
	_ = osutil.SleepTimer(ctx, whole-passed) // the end of ctx is seen by the caller
	return whole
}

func (d *deployed) lose(i *instance) {
	if i != nil {
		_ = i.Close()
	}
	d.mu.Lock()
	d.alive--
	d.mu.Unlock()
}

// expire ends instances that have idled since before.
func (d *deployed) expire(before time.Time) {
	d.mu.Lock()
	n := slices.IndexFunc(d.idle, func(i *instance) bool { return i.used.After(before) })
	if n < 0 {
		n = len(d.idle)
	}
	gone := slices.Clone(d.idle[:n])
	d.idle = slices.Delete(d.idle, 0, n)
	d.alive -= n
	d.mu.Unlock()
	for _, i := range gone {
		_ = i.Close()
	}
}

// Bill is what the provider would charge.
type Bill struct {
	Items          []Item  `json:"functions"`
	Invocations    int64   `json:"invocations"`
	Requests       int64   `json:"requests"`
	ColdStarts     int64   `json:"cold_starts"`
	Cost           float64 `json:"cost"`
	CostPerRequest float64 `json:"cost_per_request"`
}

// Item is one function of one size.
type Item struct {
	Name        string  `json:"name"` // the last part of its address
	Function    string  `json:"function"`
	Platform    string  `json:"platform"`
	VCPU        float64 `json:"vcpu"`
	GPUMemory   float64 `json:"gpu_memory_gb"`
	Invocations int64   `json:"invocations"`
	Requests    int64   `json:"requests"` // in them
	ColdStarts  int64   `json:"cold_starts"`
	Failed      int64   `json:"failed"`    // invocations that ended with an error
	Throttled   int64   `json:"throttled"` // calls that were refused
	Run         float64 `json:"run_ms"`
	Billed      float64 `json:"billed_ms"`
	Cost        float64 `json:"cost"`
	Instances   int     `json:"instances"` // alive
}

// Bill so far, in order of names.
func (h *Host) Bill() Bill {
	b := Bill{Items: []Item{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deployed {
		d.mu.Lock()
		item := d.bill
		item.Instances = d.alive
		d.mu.Unlock()
		b.Items = append(b.Items, item)
		b.Invocations += item.Invocations
		b.Requests += item.Requests
		b.ColdStarts += item.ColdStarts
		b.Cost += item.Cost
	}
	if b.Requests > 0 {
		b.CostPerRequest = b.Cost / float64(b.Requests)
	}
	slices.SortFunc(b.Items, func(x, y Item) int { return strings.Compare(x.Name, y.Name) })
	return b
}

// account bills a run, and reports what it costs. The cold start is not billed.
func (d *deployed) account(n int, r run) (cost float64) {
	offer, _ := d.place.problem.Find(d.size, n)
	billed, cost := functions.Bill(&d.place.problem.Provider, offer, r.took)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bill.Invocations++
	d.bill.Requests += int64(n)
	if r.init > 0 {
		d.bill.ColdStarts++
	}
	if r.err != nil {
		d.bill.Failed++
	}
	d.bill.Run += quantity.Millis(r.took)
	d.bill.Billed += quantity.Millis(billed)
	d.bill.Cost += cost
	return cost
}
