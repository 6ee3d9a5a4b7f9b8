package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Causes for which a long-running activity is told to stop. The context's
// cause is one of these, or activity.ErrActivityPaused or ErrActivityReset.
var (
	ErrFenced    = errors.New("activities: the server has given this attempt up; another may have taken over")
	ErrStopping  = errors.New("activities: the worker shuts down")
	ErrCancelled = errors.New("activities: cancelled by the workflow")
)

// Pulse sends one heartbeat and reports what the server said: nil, a
// *temporal.CanceledError, activity.ErrActivityPaused, ErrActivityReset, a
// NotFound when the activity is over for the server, or why it did not get
// through.
type Pulse func(ctx context.Context, token []byte, details any) error

// ClientPulse heartbeats through the client. Unlike activity.RecordHeartbeat,
// which batches and swallows errors, it tells whether the server has heard.
func ClientPulse(c client.Client) Pulse {
	return func(ctx context.Context, token []byte, details any) error {
		return c.RecordActivityHeartbeat(ctx, token, details)
	}
}

// beats is the number of heartbeats in one timeout.
const beats = 4

// lease is one attempt of a long-running activity, held by heartbeats. Silence
// does not end it: who serves goes on while the control plane is away, and
// whoever hears of something newer refuses what is stale. Only what the server
// says ends it: that the attempt is cancelled, paused, reset, or no longer known.
type lease struct {
	timeout time.Duration
	pulse   func(ctx context.Context) error
	stop    <-chan struct{} // the worker's stop channel
}

// hold returns a context that ends, with its cause, when the lease does. The
// heartbeats go on until release is called, so that draining is not taken for
// death.
func (l lease) hold(ctx context.Context) (work context.Context, release func()) {
	work, end := context.WithCancelCause(ctx)
	life, quit := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(life, end)
	}()
	return work, func() {
		quit()
		<-ended
		end(nil)
	}
}

func (l lease) keep(life context.Context, end context.CancelCauseFunc) {
	beat := l.timeout / beats
	tick := time.NewTicker(beat)
	defer tick.Stop()
	stop := l.stop
	for {
		if cause := ending(l.beat(life, beat)); cause != nil {
			end(cause) // only the first cause counts
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
// nil when it was heard, or did not get through.
func ending(err error) error {
	var cancelled *temporal.CanceledError
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &cancelled):
		return ErrCancelled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return err
	case errors.As(err, &gone):
		return ErrFenced
	}
	return nil
}
