package matching

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Names of the distributors.
const (
	Ribbon    = "ribbon"
	Clockwork = "clockwork"
	Threshold = "drs"
)

// maxLargest keeps the tables of latencies small.
const maxLargest = 1 << 20

// BaselineNames lists the distributors.
func BaselineNames() []string { return []string{Ribbon, Clockwork, Threshold} }

// BaselineOptions say which distributor to make and what it knows. They are plain data.
type BaselineOptions struct {
	Name  string         // one of BaselineNames
	Types []InstanceType // by group of executors, each with its latencies
	Base  int32          // place in Types of the kind that meets the SLO at every size
	SLO   time.Duration  // of a query that comes without a deadline

	Largest   int32 // query expected; beyond it latencies are looked up more slowly
	Threshold int32 `json:",omitempty"` // of drs: the largest query that does not go to the base
}

// Check says what is wrong with the options.
func (o BaselineOptions) Check() error {
	switch {
	case !slices.Contains(BaselineNames(), o.Name):
		return fmt.Errorf("there is no distributor %q; choose one of %s", o.Name, strings.Join(BaselineNames(), ", "))
	case o.Largest < 0 || o.Largest > maxLargest:
		return fmt.Errorf("the largest query has between 0 and %d items, not %d", maxLargest, o.Largest)
	}
	for _, t := range o.Types {
		if t.Latency.Largest() == 0 {
			return fmt.Errorf("%s knows latencies beforehand, and there are none of %s; measure it, or distribute with matching", o.Name, t.Name)
		}
	}
	return Options{Types: o.Types, Base: o.Base, SLO: o.SLO}.Check()
}

// NewBaseline makes the distributor. The options have been checked.
func NewBaseline(o BaselineOptions) dispatch.Policy {
	switch f := newFloor(o); o.Name {
	case Clockwork:
		return &clockwork{floor: f}
	case Threshold:
		return &byThreshold{floor: f, threshold: o.Threshold}
	default:
		return &ribbon{floor: f}
	}
}
