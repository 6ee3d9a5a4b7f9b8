package gateway

import (
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Defaults of Options.
const (
	DefaultMaxInFlight = 8192
	DefaultGrace       = 500 * time.Millisecond
	DefaultSpan        = 10 * time.Second
	DefaultMargin      = 2 * time.Millisecond
	DefaultRecord      = 1 << 20

	// Of functions, which are called over a network, and often seldom.
	DefaultFunctionMargin = 10 * time.Millisecond
	DefaultFunctionSpan   = 30 * time.Second
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
	// are refused at once instead of waiting for one. 0 means DefaultGrace.
	Grace time.Duration

	// Span is the time that Measures looks back on. 0 means DefaultSpan, for
	// functions DefaultFunctionSpan.
	Span time.Duration

	// Patient keeps the window of a batch to its end even while a device is
	// idle, under policy tc. By default a batch starts early where that breaks
	// no promise of the plan: its device is free again before any schedule can
	// need it.
	Patient bool

	// Margin is kept before every deadline by policies that hold batches back
	// for as long as deadlines allow, since timers, threads and the way to the
	// executors are not punctual; at most a tenth of the time that a request has
	// at the module. 0 means DefaultMargin, negative means none. Batches of functions
	// leave so long before the plan's timeouts; there 0 means DefaultFunctionMargin.
	Margin time.Duration

	// Invoker calls the functions of providers; nil makes one.
	Invoker *serverless.Invoker

	// Record is how many bytes of the latest events and decisions are kept for every
	// module, for Recording. 0 means DefaultRecord, some minutes at a hundred requests
	// per second; negative means none.
	Record int

	// Dispatched leaves it to dispatchers elsewhere when and where the items of
	// modules run; see Gateway.Follow.
	Dispatched bool
	Bytes      *Bytes // bounds what modules make of requests; nil bounds nothing

	// Observer is told what happens.
	Observer Observer

	functionSpan   time.Duration
	functionMargin time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	o.functionSpan, o.functionMargin = o.Span, max(0, o.Margin)
	if o.Span <= 0 {
		o.Span, o.functionSpan = DefaultSpan, DefaultFunctionSpan
	}
	if o.Record == 0 {
		o.Record = DefaultRecord
	}
	if o.Margin == 0 {
		o.Margin, o.functionMargin = DefaultMargin, DefaultFunctionMargin
	}
	if o.Invoker == nil {
		o.Invoker = serverless.NewInvoker(serverless.InvokerOptions{})
	}
	return o
}

// dispatching is what of the options is the dispatcher's.
func (o *Options) dispatching(now func() dispatch.Time) dispatcher.Options {
	return dispatcher.Options{
		Now: now, MaxQueue: o.MaxQueue, MaxCalls: o.MaxInFlight, Patient: o.Patient,
		Margin: o.Margin, FunctionMargin: o.functionMargin, Span: o.Span, FunctionSpan: o.functionSpan, Record: o.Record,
		Elsewhere: o.Dispatched,
	}
}
