package cores

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// Setting is a pool and what is to be asked of it. All models have the slope
// and intercept of a ResNet50 on a GTX 1080Ti (Symphony, table 4), a largest
// batch of 128 and an SLO of 100 ms, and get the same rate.
type Setting struct {
	Policy    string // adaptive, deferred or eager
	Models    int
	Executors int
	Workers   int     // of the scheduler
	Requests  int     // to be measured
	Share     float64 // of the most that the executors can do; 0 means 0.9
}

const (
	slo     = 100 * time.Millisecond
	largest = 128
	each    = 1053 * time.Microsecond
	fixed   = 5072 * time.Microsecond
	warmUp  = 4 // SLOs before the measurement, until queues and buffers have their size
)

// rate is the arrivals per second that load the executors by Share. A batch is
// taken to be as large as two executors taking turns allow.
func (s Setting) rate() float64 {
	share := s.Share
	if share == 0 {
		share = 0.9
	}
	return share * float64(s.Executors) * 750
}

func (s Setting) pool() shared.Options {
	var o shared.Options
	for range s.Models {
		o.Models = append(o.Models, shared.Model{Durations: shared.Linear(each, fixed, largest), SLO: slo})
	}
	return o
}

func (s Setting) check() error {
	if s.Models < 1 || s.Executors < 1 || s.Requests < 1 || s.Share < 0 {
		return fmt.Errorf("give at least one model, one executor and one request, not %d, %d and %d", s.Models, s.Executors, s.Requests)
	}
	return nil
}

// early is how many requests come before the measurement.
func (s Setting) early() int { return int(s.rate()*slo.Seconds()*warmUp) + 1000 }

// Result is what a run measured.
type Result struct {
	Requests    int           `json:"requests"`
	Served      int           `json:"served"`
	Batches     int           `json:"batches"`
	Wall        time.Duration `json:"wall_ns"`
	CPU         time.Duration `json:"cpu_ns"` // of the process; 0 where it cannot be told
	Allocations uint64        `json:"allocations"`
}

// Rate is the requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Wall.Seconds() }

// CoreRate is the requests per second of processor time.
func (r Result) CoreRate() float64 { return float64(r.Requests) / r.CPU.Seconds() }

// Cores is how many cores were at work.
func (r Result) Cores() float64 { return r.CPU.Seconds() / r.Wall.Seconds() }

// arrivals are Poisson, drawn beforehand and repeated.
type arrivals struct {
	gaps    []dispatch.Time
	classes []int32
	i       int
	now     dispatch.Time
}

const prepared = 1 << 16

func newArrivals(s Setting) *arrivals {
	rng := rand.New(rand.NewPCG(1, 2))
	a := &arrivals{gaps: make([]dispatch.Time, prepared), classes: make([]int32, prepared)}
	for i := range prepared {
		a.gaps[i] = dispatch.Time(rng.ExpFloat64() / s.rate() * 1e9)
		a.classes[i] = int32(rng.IntN(s.Models))
	}
	return a
}

func (a *arrivals) next() dispatch.Request {
	k := a.i & (prepared - 1)
	a.i++
	a.now += a.gaps[k]
	return dispatch.Request{ID: dispatch.RequestID(a.i), Class: a.classes[k], Arrival: a.now, Deadline: a.now + slo}
}
