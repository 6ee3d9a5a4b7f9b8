package executors

import (
	"errors"
	"fmt"
	"time"
)

// ErrUseUnknown means that this platform does not report how busy it is.
var ErrUseUnknown = errors.New("busy: this system does not report how its processors are used")

// ProcessorReading is how much processor time has been spent up to an instant.
type ProcessorReading struct {
	At    time.Time
	Cores int           // processors of the machine that are in use
	All   time.Duration // by everybody, since the machine was started
	Own   time.Duration // by this process and its descendants
}

// ProcessorUse is what the processors did between two readings.
type ProcessorUse struct {
	Elapsed time.Duration
	Cores   int     // of the machine
	Own     float64 // cores that this process and its descendants used on average
	Others  float64 // cores that everybody else used on average
}

// Since is the use between an earlier reading and this one. It is zero where no
// time has passed, or where either reading is the zero value.
func (r ProcessorReading) Since(earlier ProcessorReading) ProcessorUse {
	elapsed := r.At.Sub(earlier.At)
	if elapsed <= 0 || r.Cores == 0 || earlier.Cores == 0 {
		return ProcessorUse{}
	}
	cores := func(spent time.Duration) float64 {
		return min(max(spent.Seconds()/elapsed.Seconds(), 0), float64(r.Cores))
	}
	own := r.Own - earlier.Own
	return ProcessorUse{Elapsed: elapsed, Cores: r.Cores, Own: cores(own), Others: cores(r.All - earlier.All - own)}
}

// Known reports whether the use was read.
func (u ProcessorUse) Known() bool { return u.Cores > 0 }

// Describe is the use of others as a sentence without a full stop.
func (u ProcessorUse) Describe() string {
	if !u.Known() {
		return "how much others used of this machine is not known"
	}
	plural := "s"
	if u.Cores == 1 {
		plural = ""
	}
	return fmt.Sprintf("others used %.1f of %d core%s meanwhile", u.Others, u.Cores, plural)
}
