package activities

import (
	"context"
	"errors"
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
	replaced atomic.Bool
	fenced   atomic.Bool
}

// Held says that a hold activity is under way and that the server has not given
// it up, as far as is known: while the server is away, it is held.
func (p *Presence) Held() bool { return p.attempts.Load() > 0 }

// Replaced says that another process has joined the fleet under the same name.
func (p *Presence) Replaced() bool { return p.replaced.Load() }

// Fenced says that the server has given up the attempt that held it last.
func (p *Presence) Fenced() bool { return p.fenced.Load() }

// hold heartbeats for as long as the member is there: until its worker shuts down,
// which means that it has left, or another process takes its name.
func (p *Presence) hold(ctx context.Context, l lease) error {
	p.attempts.Add(1)
	defer p.attempts.Add(-1)
	p.fenced.Store(false)
	work, release := l.hold(ctx)
	defer release()
	<-work.Done()
	switch cause := context.Cause(work); {
	case errors.Is(cause, ErrCancelled):
		p.replaced.Store(true)
		return nil
	case errors.Is(cause, ErrStopping):
		return nil
	default:
		p.fenced.Store(errors.Is(cause, ErrFenced))
		return temporal.NewApplicationErrorWithCause(cause.Error(), TypeFenced, cause)
	}
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
