package activities

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Causes for which a long-running activity stops. The context's cause is one of these, or
// activity.ErrActivityPaused or ErrActivityReset.
var (
	ErrFenced    = errors.New("activities: the server has given this attempt up; another may have taken over")
	ErrOver      = errors.New("activities: the workflow of this attempt has ended, so that no other takes over")
	ErrStopping  = errors.New("activities: the worker shuts down")
	ErrCancelled = errors.New("activities: cancelled by the workflow")
)

// Pulse sends one heartbeat and returns the server's answer: nil, a
// *temporal.CanceledError, activity.ErrActivityPaused, ErrActivityReset, a NotFound when
// the attempt is over for the server, ErrOver when its workflow is, too, or the error of
// the call. ctx is of the activity.
type Pulse func(ctx context.Context, token []byte, details any) error

// ClientPulse heartbeats through the client. Unlike activity.RecordHeartbeat,
// which batches and swallows errors, it reports whether the server has answered. A paused
// activity goes on with another attempt.
func ClientPulse(c client.Client) Pulse {
	return func(ctx context.Context, token []byte, details any) error {
		err := c.RecordActivityHeartbeat(ctx, token, details)
		if errors.Is(err, activity.ErrActivityPaused) { // the attempt ends, and the server would not offer the next one
			i := activity.GetInfo(ctx)
			at := &commonpb.WorkflowExecution{WorkflowId: i.WorkflowExecution.ID, RunId: i.WorkflowExecution.RunID}
			_ = resumeActivity(ctx, c, i.Namespace, at, i.ActivityID) // or control roles do
		}
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) && over(ctx, c) {
			return ErrOver
		}
		return err
	}
}

// over reports whether the workflow of an activity has ended, as far as the server answers. It
// gives up an attempt, too, where the next one is about to be offered.
func over(ctx context.Context, c client.Client) bool {
	of := activity.GetInfo(ctx).WorkflowExecution
	w, err := c.DescribeWorkflowExecution(ctx, of.ID, of.RunID)
	return err == nil && !Goes(w.GetWorkflowExecutionInfo().GetStatus())
}

// beats is the number of heartbeats in one timeout.
const beats = 4

// lease is one attempt of a long-running activity, held by heartbeats. Silence of the
// server does not end it: what serves goes on while the control plane is away, and
// receivers refuse what is stale. Only an answer of the server ends it: that the attempt is
// cancelled, paused, reset, or no longer known.
type lease struct {
	timeout time.Duration
	pulse   func(ctx context.Context) error
	stop    <-chan struct{} // the worker's stop channel
}

// hold returns a context that ends, with its cause, when the lease does, and a channel that
// is closed when its workflow has ended, which may become known later. The heartbeats go on
// until release is called, so that draining is not taken for death.
func (l lease) hold(ctx context.Context) (work context.Context, over <-chan struct{}, release func()) {
	work, end := context.WithCancelCause(ctx)
	life, quit := context.WithCancel(context.WithoutCancel(ctx))
	ended, ends := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(life, end, sync.OnceFunc(func() { close(ends) }))
	}()
	return work, ends, func() {
		quit()
		<-ended
		end(nil)
	}
}

func (l lease) keep(life context.Context, end context.CancelCauseFunc, over func()) {
	beat := l.timeout / beats
	tick := time.NewTicker(beat)
	defer tick.Stop()
	stop := l.stop
	for {
		if cause := ending(l.beat(life, beat)); cause != nil {
			end(cause) // only the first cause counts
			if errors.Is(cause, ErrOver) {
				over()
			}
		}
		select {
		case <-tick.C:
		case <-stop:
			end(ErrStopping)
			stop = nil
		case <-life.Done():
			return
		}
	}
}

func (l lease) beat(life context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(life, limit)
	defer cancel()
	return l.pulse(ctx)
}

// ending is the cause when a heartbeat's answer means that the attempt is over;
// nil when the server took it, or it did not get through.
func ending(err error) error {
	var cancelled *temporal.CanceledError
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &cancelled):
		return ErrCancelled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return err
	case errors.Is(err, ErrOver):
		return ErrOver
	case errors.As(err, &gone):
		return ErrFenced
	}
	return nil
}

// Kind states what a member of the fleet is.
type Kind string

// The kinds of members. The workflow that holds a member has the ID KIND/NAME.
const (
	KindHost       Kind = "host"       // offers devices
	KindGateway    Kind = "gateway"    // takes requests
	KindDispatcher Kind = "dispatcher" // decides for services

	KindProvisioner Kind = "provisioner" // makes hosts of the hardware that it is named after
)

// Presence reports whether the fleet holds a member of this process. The zero value
// is one that is not held.
type Presence struct {
	attempts atomic.Int32
	fenced   atomic.Bool

	make sync.Once
	over chan struct{} // of one element
}

// Held reports that a hold activity is under way and that the server has not given
// it up, as far as is known: while the server is away, it is held.
func (p *Presence) Held() bool { return p.attempts.Load() > 0 }

// Fenced reports that the server has given up the attempt that held it last, or cancelled it.
func (p *Presence) Fenced() bool { return p.fenced.Load() }

// Over reports when the workflow that held it has ended, or was cancelled: another process may
// have its name, the fleet may have lost it, or a person may have ended that workflow.
func (p *Presence) Over() <-chan struct{} {
	p.make.Do(func() { p.over = make(chan struct{}, 1) })
	return p.over
}

// hold heartbeats for as long as the member is there: until its worker shuts down,
// which means that it has left, or another process takes its name.
func (p *Presence) hold(ctx context.Context, l lease) error {
	p.attempts.Add(1)
	p.fenced.Store(false)
	work, _, release := l.hold(ctx)
	<-work.Done()
	release()
	cause := context.Cause(work)
	over := errors.Is(cause, ErrOver) || errors.Is(cause, ErrCancelled)
	p.fenced.Store(over || errors.Is(cause, ErrFenced))
	p.attempts.Add(-1)
	if over {
		p.Over()
		select {
		case p.over <- struct{}{}:
		default: // the last value has not been received
		}
	}
	if errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrStopping) {
		return nil
	}
	return temporal.NewApplicationErrorWithCause(cause.Error(), TypeFenced, cause)
}

// newLease is the lease of the attempt that ctx belongs to.
func newLease(ctx context.Context, pulse Pulse, details func() any) lease {
	info := activity.GetInfo(ctx)
	timeout := info.HeartbeatTimeout
	if timeout <= 0 {
		timeout = DefaultHeartbeatTimeout
	}
	return lease{
		timeout: timeout,
		stop:    activity.GetWorkerStopChannel(ctx),
		pulse:   func(ctx context.Context) error { return pulse(ctx, info.TaskToken, details()) },
	}
}

// present is for how long, as heartbeats state it.
func present(since time.Time) string { return time.Since(since).Round(time.Second).String() }
