package autoscale

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// ClusterOptions say when the size of a cluster is to change. Zero values take the
// defaults.
type ClusterOptions struct {
	Bad      float64       // share of bad requests from which on more devices are asked for; 0 means DefaultBad
	Spare    float64       // share of the devices kept idle beyond what the load needs; 0 means DefaultSpare
	Shrink   time.Duration // how long devices must have idled before any is returned; 0 means DefaultShrink
	Min, Max int           // devices; a Max of 0 is no bound
}

// leastOutcomes is how many requests must have ended for the share of bad ones to tell
// something.
const leastOutcomes = 20

// OfCluster is what the measures show of a cluster that has so many devices. The bad
// rate is that of the pipeline with most, since every one of them was promised its
// attainment.
func (m Measures) OfCluster(devices int) ClusterMeasures {
	c := ClusterMeasures{End: m.To, Devices: devices}
	for _, one := range m.Members {
		if n := one.Outcomes(); n >= leastOutcomes {
			c.Bad = max(c.Bad, float64(n-one.Completed)/float64(n))
		}
	}
	busy := 0.0
	for i := range m.Modules {
		for _, e := range m.Modules[i].Executors {
			busy += e.Utilisation
		}
	}
	if devices > 0 {
		c.Idle = max(0, 1-busy/float64(devices))
	}
	return c
}

// Defaults of ClusterOptions. More is asked for at once and returned late: a
// square wave of load that idles for less than DefaultShrink changes the size
// once, and a longer one twice a period.
const (
	DefaultBad    = 0.01
	DefaultSpare  = 0.05
	DefaultShrink = time.Minute
)

// Cluster advises on the size of a cluster by Symphony's two signals (section 4.4):
// a bad rate r above the target asks for N·r/(1-r) more devices, an idle share f
// returns N·f. Devices are returned only as far as the least that idled over all
// of Shrink. Like Drift it is a value that a workflow may keep.
type Cluster struct {
	Options ClusterOptions
	Idle    []IdleDevices // of the last Shrink, in order of time; devices that least idled
	Since   time.Time     // begin of what Idle covers
}

// IdleDevices is how many devices idled in the span that ended at At.
type IdleDevices struct {
	At      time.Time
	Devices float64
}

// ClusterMeasures are what a span of time has shown of a cluster.
type ClusterMeasures struct {
	End     time.Time
	Devices int     // that served
	Bad     float64 // share of requests that were not answered in time; of the pipeline with most
	Idle    float64 // share of the devices' time without a batch
}

// ClusterAdvice is to change the number of devices; a Change of 0 is none.
type ClusterAdvice struct {
	Change    int
	Bad, Idle float64
}

// Describe gives the reason in one line.
func (a ClusterAdvice) Describe() string {
	switch {
	case a.Change > 0:
		return fmt.Sprintf("%d more devices: %s of the requests were not in time", a.Change, quantity.Percent(a.Bad))
	case a.Change < 0:
		return fmt.Sprintf("%d devices less: %s of their time idle", -a.Change, quantity.Percent(a.Idle))
	}
	return "as many devices as the load needs"
}

func (o ClusterOptions) withDefaults() ClusterOptions {
	if o.Bad == 0 {
		o.Bad = DefaultBad
	}
	if o.Spare == 0 {
		o.Spare = DefaultSpare
	}
	if o.Shrink == 0 {
		o.Shrink = DefaultShrink
	}
	if o.Max == 0 {
		o.Max = math.MaxInt32
	}
	return o
}

// Observe takes the measures of the next span of time. Its advice is taken to be
// followed.
func (c *Cluster) Observe(m ClusterMeasures) ClusterAdvice {
	o := c.Options.withDefaults()
	a := ClusterAdvice{Bad: m.Bad, Idle: m.Idle}
	n := float64(m.Devices)
	if m.Bad > o.Bad {
		more := math.Ceil(n * m.Bad / (1 - min(m.Bad, 1-1/(n+1))))
		a.Change = max(0, min(m.Devices+int(more), o.Max)-m.Devices)
		c.Idle, c.Since = nil, m.End
		return a
	}
	if c.Since.IsZero() {
		c.Since = m.End
	}
	c.Idle = append(c.Idle, IdleDevices{m.End, n * m.Idle})
	first := 0
	for first < len(c.Idle) && m.End.Sub(c.Idle[first].At) > o.Shrink {
		first++
	}
	c.Idle = c.Idle[first:]
	if m.End.Sub(c.Since) < o.Shrink {
		return a
	}
	least := n
	for _, at := range c.Idle {
		least = min(least, at.Devices)
	}
	fewer := int(math.Floor(least - o.Spare*n))
	if a.Change = -max(0, min(fewer, m.Devices-max(1, o.Min))); a.Change < 0 {
		c.Idle, c.Since = nil, m.End
	}
	return a
}
