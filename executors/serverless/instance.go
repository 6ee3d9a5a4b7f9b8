package serverless

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
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
	managed functions.Managed // as it was told
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

// pace lets the time pass that the batch takes beyond what has passed, and
// says how long it took in all. A sleep that this machine ends late is no time
// of the function's, and is not billed.
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
