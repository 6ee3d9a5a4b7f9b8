package experiments

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Pace is how fast a policy decides, with everything around it on the same
// core: drawing the arrivals, running the devices, counting.
type Pace struct {
	Rate  float64 // requests per second of processor time
	Batch float64 // mean
}

// The pool of Pace: networks with an SLO at which batches are long, at most of
// what the devices can do.
const (
	paceSLO  = 100.0 // milliseconds
	paceLoad = 0.8
)

// Speed measures the pace over so many requests. Clock reads processor time.
func Speed(policy string, models, devices int, requests float64, clock func() time.Duration) (Pace, error) {
	s := DispatchSetting{Models: alike(models, paceSLO), Devices: devices, Shape: 1}
	rate := paceLoad * s.Bound()
	o := simulate.Options{Dispatch: policy, Duration: seconds(requests / rate), Seed: 1}
	begin := clock()
	r, err := simulate.OnCluster(s.Loads(rate), s.pool(), o)
	if err != nil {
		return Pace{}, err
	}
	took := clock() - begin
	total := r.Total()
	return Pace{Rate: float64(total.Requests) / max(took.Seconds(), 1e-9), Batch: meanBatch(r)}, nil
}
