package gateway

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Defaults of Options.
const (
	DefaultMaxInFlight = 8192
	DefaultGrace       = 500 * time.Millisecond
	DefaultSpan        = 10 * time.Second
)

// Options configures a Gateway. The zero value is good for one process.
type Options struct {
	// Token is what executors must say in their Hello; empty accepts any.
	Token string

	// MaxInFlight bounds the requests of one pipeline that are under way; one
	// more is refused as overloaded. 0 means DefaultMaxInFlight.
	MaxInFlight int

	// MaxQueue bounds the waiting items of one module. 0 means
	// dispatch.DefaultMaxQueue.
	MaxQueue int

	// Grace is how long a module may be without any executor before requests
	// are refused at the door instead of waiting for one. 0 means DefaultGrace.
	Grace time.Duration

	// Span is the time that Measures looks back on. 0 means DefaultSpan.
	Span time.Duration

	// Patient keeps the window of a batch to its end even while a device is
	// idle. By default a batch starts early where devices have time to spare:
	// modules share devices, and waiting beside an idle one is latency for
	// nothing.
	Patient bool

	// Policy makes the dispatch policy of one module; nil is TC.
	Policy func(d placement.Deployment, module string) dispatch.Policy

	// Observer is told what happens.
	Observer Observer
}

func (o Options) withDefaults() Options {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Span <= 0 {
		o.Span = DefaultSpan
	}
	if o.Policy == nil {
		o.Policy = func(d placement.Deployment, module string) dispatch.Policy {
			tc := TCOptions(d, module, o.MaxQueue)
			tc.Eager = !o.Patient
			return dispatch.NewTC(tc)
		}
	}
	return o
}
