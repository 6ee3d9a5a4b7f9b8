package executors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// maxReloads is how often in a row an engine may fail to load again before its
// executor gives up, so that it can be placed elsewhere.
const maxReloads = 6

// RunExecutor runs one executor until the gateways drain it or ctx ends. It
// loads the module, attaches to the gateways, answers batches, attaches again
// when the stream breaks, and loads again when the engine is gone.
//
// When ctx ends, the executor requests a drain from every gateway, finishes the batches that it
// holds and returns nil, as after a drain by the gateways. The errors are: a *LoadError where
// the engine is missing or cannot load the module, or the device is unknown; the engine could
// not load it again, even after several attempts; the name is taken; or what was held did not
// finish within DrainTimeout.
func (h *Host) RunExecutor(ctx context.Context, t Task, o Observer) error {
	begin := time.Now()
	t, release, err := h.placeAll(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	e, err := h.newExecutor(t, o)
	if err != nil {
		return loadError(t.Module.Name, begin, "%w", err)
	}
	if err := h.enter(e); err != nil {
		return err
	}
	defer h.leave(e)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer func() {
		end()
		e.watching.Wait()
		e.close()
	}()
	if err := e.load(ctx, run); err != nil {
		return err
	}
	if err := e.serve(ctx, run, stop); err != nil {
		return err
	}
	e.enter(Stopped)
	e.observer.drained(e.status)
	return nil
}

// executor is the state of one RunExecutor.
type executor struct {
	host      *Host
	task      Task
	observer  Observer
	residents []resident
	staging   bool // a batch ahead goes to the engine at once
	device    *deviceQueue
	turn      queueUser
	assembly  attach.Assembly // of batches that come in parts
	lanes     lanes           // one for every batch that may run at once
	attached  atomic.Int32    // streams
	watching  sync.WaitGroup  // for engines that end by themselves
	failed    chan error      // has why one could not be loaded again
	counters
}

func (h *Host) newExecutor(t Task, o Observer) (*executor, error) {
	residents, err := h.settle(t)
	if err != nil {
		return nil, err
	}
	queue := new(deviceQueue)
	if t.Slot.Device != "" && !t.Slot.Rides {
		if queue, err = h.device(t.Slot.Device); err != nil {
			return nil, err
		}
	}
	e := &executor{host: h, task: t, observer: o, residents: residents, device: queue, turn: queueUser{Concurrency: t.concurrency()}, failed: make(chan error, 1)}
	e.enter(Loading)
	e.lanes.open(t.concurrency(), 1)
	for _, c := range e.lanes.all {
		c.took = make([]Durations, len(residents))
	}
	e.staging = e.together()
	return e, nil
}

func (e *executor) load(ctx, run context.Context) error {
	begin := time.Now()
	for _, c := range e.lanes.all {
		if err := e.fill(ctx, run, c); err != nil {
			return loadError(e.task.Module.Name, begin, "%w", e.cannotLoad(err, 0))
		}
	}
	for i, instance := range e.lanes.all[0].instances {
		e.residents[i].signature = instance.Signature()
	}
	if e.ahead() {
		e.lanes.setDepth(deep)
	}
	e.observer.loaded(e.status)
	return nil
}

// fill loads the lane's instances. Loading stops with ctx; the instances live
// on with run, so that what it holds at ctx's end can still be finished.
func (e *executor) fill(ctx, run context.Context, c *lane) error {
	life, stop := context.WithCancel(run)
	unlink := context.AfterFunc(ctx, stop)
	instances, err := e.instances(life)
	if !unlink() && err == nil {
		err = context.Cause(ctx)
		for _, one := range instances {
			_ = one.Close()
		}
	}
	if err != nil {
		stop()
		return err
	}
	c.instances, c.stop = instances, stop
	for _, one := range instances {
		c.memory += one.Memory()
	}
	e.memory.Add(c.memory)
	for _, one := range instances {
		if m, ok := one.(mortal); ok {
			e.watching.Go(func() { e.watch(ctx, run, life, c, m) })
		}
	}
	return nil
}

// watch loads a lane again whose engine ends while no batch finds out. life is that of the
// lane's instances.
func (e *executor) watch(ctx, run, life context.Context, c *lane, one mortal) {
	idle, cancel := context.WithCancel(life)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	cause := one.AwaitEnd(idle)
	if cause == nil || !e.lanes.seize(life, c) {
		return
	}
	defer e.lanes.endReload(c)
	e.lanes.awaitAlone(c)
	c.crashes++
	if err := e.reload(ctx, run, c, cause); err != nil {
		select {
		case e.failed <- err:
		default: // one is enough
		}
	}
}

// empty closes the lane's instances, if there are any.
func (e *executor) empty(c *lane) {
	if c.instances == nil {
		return
	}
	e.memory.Add(-c.memory)
	c.closeInstances(e.fail)
	c.stop()
	c.instances, c.memory, c.stop = nil, 0, nil
}

func (e *executor) close() {
	for _, c := range e.lanes.all {
		e.empty(c)
	}
}

// reload replaces a lane's instance that is gone, waiting longer after every
// failure. It returns nil with the lane empty when ctx ends first.
func (e *executor) reload(ctx, run context.Context, c *lane, cause error) error {
	e.enter(Reloading)
	e.empty(c)
	for attempt := 1; ; attempt++ {
		e.fail(cause)
		e.observer.reloading(e.status, attempt, cause)
		if osutil.SleepTimer(ctx, e.host.Retry.After(c.crashes+attempt-2)) != nil {
			return nil
		}
		err := e.fill(ctx, run, c)
		if err == nil {
			break
		}
		if cause = err; ctx.Err() != nil {
			return nil
		}
		if attempt == maxReloads {
			return e.cannotLoad(err, attempt)
		}
	}
	e.reloads.Add(1)
	e.enter(Serving)
	e.observer.loaded(e.status)
	return nil
}

// failure turns whatever an engine returned into the protocol's error.
func failure(module string, err error) *wire.Error {
	if e, ok := err.(*wire.Error); ok {
		return e
	}
	return wire.Errorf(wire.CodeInternal, module, "%v", err)
}

// LoadError means that an executor, or a measurement, could not have its module's
// engine ready: the engine is missing, or cannot load the module.
type LoadError struct {
	Module string
	Took   time.Duration // until it was known
	Err    error
}

// Error is that of the engine, which names the module.
func (e *LoadError) Error() string { return e.Err.Error() }

// Unwrap gives the engine's error.
func (e *LoadError) Unwrap() error { return e.Err }

// quickly is how soon a load must have failed for another attempt to be worth
// while.
const quickly = 10 * time.Second

// Again reports whether to try once more may help: what was unavailable, such as a
// server or a process that ended, may be there the next time. What an engine
// refuses it will refuse again.
func (e *LoadError) Again(attempt int) bool {
	return errors.Is(e.Err, wire.ErrUnavailable) && attempt < 2 && e.Took < quickly
}

func loadError(module string, begin time.Time, format string, args ...any) error {
	return &LoadError{Module: module, Took: time.Since(begin), Err: fmt.Errorf(format, args...)}
}

// Backoff is a wait that doubles from Min to Max; zero means 50 ms to 1 s.
type Backoff struct {
	Min, Max time.Duration
}

// The wait of a zero Backoff.
const (
	defaultRetryMin = 50 * time.Millisecond
	defaultRetryMax = time.Second
)

// After is the wait before attempt n+1, when n attempts have failed; none
// before the first.
func (b Backoff) After(n int) time.Duration {
	if b == (Backoff{}) {
		b = Backoff{Min: defaultRetryMin, Max: defaultRetryMax}
	}
	if n <= 0 {
		return 0
	}
	wait := b.Min
	for range n - 1 {
		if wait *= 2; wait >= b.Max {
			return b.Max
		}
	}
	return min(wait, b.Max)
}
