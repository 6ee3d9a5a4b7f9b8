package autoscale

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// TransferOptions define when transfers between gateways and executors take longer than a
// plan counts on. Zero values take the defaults.
type TransferOptions struct {
	Least    time.Duration // what no plan needs to count on, because dispatchers keep it anyway; 0 means DefaultTransfer
	Hold     time.Duration // how long it must take longer, twice that for shorter; 0 means PromiseHold
	Cooldown time.Duration // least time between two advices, and after Reset; 0 means DefaultCooldown
}

// DefaultTransfer is of TransferOptions. Plans follow slowly: a machine that is busy for a few
// seconds is no longer way.
const DefaultTransfer = 2 * time.Millisecond

const (
	transferBatches = 20                        // that a host's percentile rests on at the least
	transferStep    = time.Millisecond          // plans count on whole ones
	transferLess    = 0.5                       // times what is counted on that is short
	transferMost    = 0.25                      // of the objective that may be counted on, by all modules of a path
	transferForget  = 30 * time.Minute          // after which a host without reports is forgotten
	transferFade    = float64(10 * time.Second) // in which a percentile that was higher fades to a third
)

// Transfers watches the way from gateways to the executors of each host and back. A plan
// must count on what nearly every batch takes on the slowest of them, since any host may
// get any executor. Like Drift it is a value that a workflow may keep.
type Transfers struct {
	Options TransferOptions
	Hosts   []HostTransferSeen // in order of name
	Planned time.Duration      // that the plan counts on
	Side    int                // +1 longer than that, -1 much shorter
	Since   time.Time          // when it went to that side
	Quiet   time.Time          // no advice before
	Last    time.Time          // end of the last measures
}

// HostTransferSeen is the percentile of one host, with that of lately fading slowly.
type HostTransferSeen struct {
	Host string
	P99  time.Duration
	At   time.Time
}

// TransferAdvice is to plan with Transfer for every module's way.
type TransferAdvice struct {
	Transfer time.Duration
	Planned  time.Duration // counted on so far
	Slowest  HostTransferSeen
	Held     time.Duration
}

// Describe gives the reason in one line.
func (a TransferAdvice) Describe() string {
	return fmt.Sprintf("the way to executors on %s and back takes %s (99 of 100 batches), the plan counts on %s",
		a.Slowest.Host, quantity.Duration(a.Slowest.P99), quantity.Duration(a.Planned))
}

// Reset starts again after a plan that counts on planned took over at now; what is known
// of hosts stays known.
func (t *Transfers) Reset(planned time.Duration, now time.Time) {
	o := t.Options.withDefaults()
	t.Planned, t.Side, t.Since, t.Quiet, t.Last = planned, 0, now, now.Add(o.Cooldown), now
}

// Observe takes the measures of the next span of time. slo is the service's objective and
// modules the number of modules on its longest path.
func (t *Transfers) Observe(m Measures, slo time.Duration, modules int) (TransferAdvice, bool) {
	t.Options = t.Options.withDefaults()
	if m.Span() <= 0 || !m.To.After(t.Last) {
		return TransferAdvice{}, false
	}
	past := m.To.Sub(t.Last)
	t.Last = m.To
	for i := range m.Modules {
		for _, h := range m.Modules[i].Transfers {
			if h.Batches >= transferBatches {
				t.saw(h, m.To, past)
			}
		}
	}
	t.Hosts = slices.DeleteFunc(t.Hosts, func(h HostTransferSeen) bool { return m.To.Sub(h.At) > transferForget })
	need := t.Reserve(slo, modules)
	side := 0
	switch {
	case float64(need) > float64(max(t.Planned, t.Options.Least))*DefaultSlower:
		side = 1
	case float64(need) < float64(t.Planned)*transferLess:
		side = -1
	}
	if side != t.Side {
		t.Side, t.Since = side, m.To
	}
	hold := t.Options.Hold
	if side < 0 {
		hold *= 2
	}
	a := TransferAdvice{Transfer: need, Planned: t.Planned, Slowest: t.slowest(), Held: m.To.Sub(t.Since)}
	if side == 0 || a.Held < hold || m.To.Before(t.Quiet) {
		return a, false
	}
	t.Quiet = m.To.Add(t.Options.Cooldown)
	return a, true
}

// saw notes what a host's batches took: at once where it is longer, fading where it is
// shorter.
func (t *Transfers) saw(h HostTransfer, now time.Time, past time.Duration) {
	i, known := slices.BinarySearchFunc(t.Hosts, h.Host, func(s HostTransferSeen, host string) int { return cmp.Compare(s.Host, host) })
	if !known {
		t.Hosts = slices.Insert(t.Hosts, i, HostTransferSeen{Host: h.Host, P99: h.P99})
	}
	s := &t.Hosts[i]
	s.At = now
	if h.P99 > s.P99 {
		s.P99 = h.P99
		return
	}
	s.P99 -= time.Duration(min(1, float64(past)/transferFade) * float64(s.P99-h.P99))
}

func (t *Transfers) slowest() (all HostTransferSeen) {
	for _, h := range t.Hosts {
		if h.P99 > all.P99 {
			all = h
		}
	}
	return all
}

// Reserve is what a plan must count on for the way to an executor and back, at any module:
// the percentile of the slowest host in whole milliseconds, up to a quarter of the
// objective on the way through all modules. What dispatchers keep anyway is 0.
func (t *Transfers) Reserve(slo time.Duration, modules int) time.Duration {
	way := (t.slowest().P99 + transferStep - 1) / transferStep * transferStep
	if way <= t.Options.withDefaults().Least {
		return 0
	}
	return min(way, time.Duration(transferMost*float64(slo))/time.Duration(max(modules, 1)))
}

func (o TransferOptions) withDefaults() TransferOptions {
	o.Least = cmp.Or(o.Least, DefaultTransfer)
	o.Hold = cmp.Or(o.Hold, PromiseHold)
	o.Cooldown = cmp.Or(o.Cooldown, DefaultCooldown)
	return o
}
