package activities

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// Kind says what a member of the fleet is.
type Kind string

// The kinds of members. The workflow that holds a member has the ID KIND/NAME.
const (
	KindHost       Kind = "host"       // offers devices
	KindGateway    Kind = "gateway"    // takes requests
	KindDispatcher Kind = "dispatcher" // decides for services

	KindProvisioner Kind = "provisioner" // makes hosts of the hardware that it is named after
)

// Presence tells whether the fleet holds a member of this process. The zero value
// is one that is not held.
type Presence struct {
	attempts atomic.Int32
	fenced   atomic.Bool

	make sync.Once
	over chan struct{} // of one element
}

// Held says that a hold activity is under way and that the server has not given
// it up, as far as is known: while the server is away, it is held.
func (p *Presence) Held() bool { return p.attempts.Load() > 0 }

// Fenced says that the server has given up the attempt that held it last, or cancelled it.
func (p *Presence) Fenced() bool { return p.fenced.Load() }

// Over tells when the workflow that held it has ended, or was cancelled: another process may
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
		default: // nobody has heard the last time
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

// present says for how long, in heartbeats.
func present(since time.Time) string { return time.Since(since).Round(time.Second).String() }
