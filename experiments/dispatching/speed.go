package dispatching

import (
	"fmt"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Pace is how fast a policy decides, with everything around it on the same
// core: drawing the arrivals, running the devices, counting.
type Pace struct {
	Policy  string  `json:"policy"`
	Models  int     `json:"models"`
	Devices int     `json:"devices"`
	Rate    float64 `json:"requests_per_second"` // of processor time
	Batch   float64 `json:"mean_batch"`
}

// The pool of Pace: networks with an SLO at which batches are long, at most of
// what the devices can do.
const (
	paceSLO  = 100.0 // milliseconds
	paceLoad = 0.8
)

// PaceModels and PaceDevices are the places of the curve.
func PaceModels() []int  { return []int{1, 4, 16, 64, 256, 1024} }
func PaceDevices() []int { return []int{1, 8, 64, 512, 1000, 4096} }

// Speed measures the pace over so many requests. Clock reads processor time.
func Speed(policy string, models, devices int, requests float64, clock func() time.Duration) (Pace, error) {
	p := Pace{Policy: policy, Models: models, Devices: devices}
	s := Setting{Models: alike(models, paceSLO), Devices: devices, Shape: 1}
	rate := paceLoad * s.Bound()
	o := simulate.Options{Dispatch: policy, Duration: seconds(requests / rate), Seed: 1}
	begin := clock()
	r, err := simulate.OnCluster(s.Loads(rate), s.pool(), o)
	if err != nil {
		return p, err
	}
	took := clock() - begin
	total := r.Total()
	p.Rate = float64(total.Requests) / max(took.Seconds(), 1e-9)
	p.Batch = meanBatch(r)
	return p, nil
}

// Paces is a curve of them.
type Paces []Pace

const paceTitle = "Requests per second of one core, simulator included"

// Describe draws the curve for terminals.
func (p Paces) Describe() string { return paceTitle + "\n" + p.grid() }

// Markdown writes it for documents.
func (p Paces) Markdown() string { return "### " + paceTitle + "\n\n" + p.grid() }

// grid has a row for each policy and number of models, a column for each
// number of devices.
func (p Paces) grid() string {
	var b strings.Builder
	b.WriteString("| policy | models |")
	for _, d := range PaceDevices() {
		fmt.Fprintf(&b, " %d devices |", d)
	}
	b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(PaceDevices())) + "\n")
	for i := 0; i < len(p); {
		fmt.Fprintf(&b, "| %s | %d |", p[i].Policy, p[i].Models)
		for row := p[i]; i < len(p) && p[i].Policy == row.Policy && p[i].Models == row.Models; i++ {
			fmt.Fprintf(&b, " %.2f M |", p[i].Rate/1e6)
		}
		b.WriteString("\n")
	}
	return b.String()
}
