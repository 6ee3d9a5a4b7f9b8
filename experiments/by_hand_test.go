package experiments

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
)

// Figures made a second time by the papers' equations, written out plainly. What they are
// compared with is made by the planners and packages that serve; only coefficients are
// shared.

// terms are those that a cloud sells functions on.
type terms struct {
	vcpu, gpu, invocation float64 // money per vCPU and second, per GB and second, per call
	host                  float64 // money per GB of main memory and second
	share                 float64 // vCPUs that each GB of GPU memory is billed with
	longer                float64 // of longest latencies on a part of a GPU
	hosts                 func(batch int) (cpu, gpu float64)
}

// The paper's terms (HarmonyBatch, section V-A), and those of its authors' program.
func paperTerms() terms {
	return terms{vcpu: 1.3e-5, gpu: 1.5e-5, invocation: 1.3e-7, longer: 1, hosts: func(int) (cpu, gpu float64) { return 0, 0 }}
}

func programTerms() terms {
	return terms{vcpu: 9e-5, gpu: 1.1e-4, invocation: 9e-7, host: 9e-6, share: 1.0 / 3, longer: 1.2, hosts: func(b int) (cpu, gpu float64) {
		return math.Ceil((36.57142857*float64(b)+807.6190476)/64) / 16, 0.5
	}}
}

// onGPU reports whether the cheapest function of one application that may wait is on a
// GPU, and whether there is any: every size and batch is tried (equations 1 to 6, constraints 8
// to 10).
func (k terms) onGPU(p pipelines.FunctionProfile, slo, rate float64) (gpu, any bool) {
	const slice, whole = 0.002, 24.0
	least := math.Inf(1)
	try := func(isGPU bool, batch int, average, longest, perSecond float64) {
		wait := slo - longest                                          // constraint 10
		if wait < 0 || math.Floor(rate*wait+1e-9)+1 < float64(batch) { // constraint 9
			return
		}
		if cost := (average*perSecond + k.invocation) / float64(batch); cost < least { // equation 6
			least, gpu, any = cost, isGPU, true
		}
	}
	for _, c := range p.CPU {
		for step := 1; step <= 320; step++ {
			v := 0.05 * float64(step)
			average := c.Avg.Alpha*math.Exp(-v/c.Avg.Beta) + c.Avg.Gamma // equation 1
			longest := c.Max.Alpha*math.Exp(-v/c.Max.Beta) + c.Max.Gamma
			host := 0.0
			if k.host > 0 {
				needs, _ := k.hosts(c.Batch)
				if host = max(needs, math.Ceil(v*16-1e-9)/16); host > 4*v {
					continue
				}
			}
			try(false, c.Batch, average, longest, v*k.vcpu+host*k.host)
		}
	}
	for batch := 1; batch <= 32; batch++ {
		needs := 1.0
		for _, t := range p.GPU.Thresholds {
			if batch > t {
				needs++
			}
		}
		alone := p.GPU.Xi1*float64(batch) + p.GPU.Xi2 // equation 2
		for m := needs; m <= whole; m++ {             // constraint 8
			average := whole / m * alone                                       // equation 3
			longest := math.Ceil(alone/(m*slice)-1e-9)*(whole-m)*slice + alone // equation 4
			if m < whole {
				longest *= k.longer
			}
			_, host := k.hosts(batch)
			try(true, batch, math.Ceil(average), longest, m*(k.gpu+k.share*k.vcpu)+host*k.host) // billed by the second
		}
	}
	return gpu, any
}

// TestKneesByHand makes figure 7 of HarmonyBatch again.
func TestKneesByHand(t *testing.T) {
	type knee struct{ toCPU, toGPU, rate float64 }
	find := func(k terms, p pipelines.FunctionProfile) (found knee) {
		for ms := 100.0; ms <= 1200; ms += 10 {
			gpu, any := k.onGPU(p, ms/1000, 20)
			switch {
			case any && !gpu && found.toCPU == 0:
				found.toCPU = ms / 1000
			case gpu && found.toCPU > 0 && found.toGPU == 0:
				found.toGPU = ms / 1000
			}
		}
		for tenths := 1.0; tenths <= 400 && found.rate == 0; tenths++ {
			if gpu, _ := k.onGPU(p, 1, tenths/10); gpu {
				found.rate = tenths / 10
			}
		}
		return found
	}
	for _, held := range [][]string{nil, {authorsCloud}} {
		r, err := knees(t.Context(), &Env{Assumed: held})
		require.NoError(t, err)
		require.Len(t, r.Rows, 6)
		for i, model := range []string{"VGG-19", "BERT"} {
			k := paperTerms()
			if held != nil && model == "VGG-19" {
				k = programTerms()
			}
			want, rows := find(k, published.HarmonyBatch()[model]), r.Rows[3*i:3*i+3]
			require.Equal(t, model, rows[0].Setting.Text("model"))
			assert.InDelta(t, want.toCPU, rows[0].Ours, 1e-6, "%s %v", model, held)
			assert.InDelta(t, want.toGPU, rows[1].Ours, 1e-6, "%s %v", model, held)
			assert.InDelta(t, want.rate, rows[2].Ours, 1e-6, "%s %v", model, held)
		}
	}
}

// TestSlicesByHand has figure 8 of HarmonyBatch in closed form: of a round of M slices a function
// has m, and what needs 2m takes 2M from within its own, or 2M less what is over of the
// others' (M - m at most).
func TestSlicesByHand(t *testing.T) {
	r, err := sliced(t.Context(), &Env{})
	require.NoError(t, err)
	for _, row := range r.Rows {
		m, ok := row.Setting.Number("memory_gb")
		require.True(t, ok)
		want := map[string]float64{"shortest": 2 * (24 + m), "longest": 96, "average": 2 * (48 - (24-m)*(24-m)/48)}[row.Metric]
		if row.System == "played" {
			assert.InDelta(t, want, row.Ours, 0.05, "%s %v", row.Metric, m)
		} else {
			assert.InDelta(t, 96, row.Ours, 1e-9, "%s %v", row.Metric, m)
		}
	}
}

// TestTurnsByHand makes the line of devices in turns again, by trying batches one by one
// (Symphony, section 2 and table 4): the printed ones, and the line of each setting.
func TestTurnsByHand(t *testing.T) {
	turns := func(alpha, beta, slo float64, devices int) (batch int, rate float64) {
		n := float64(devices)
		for b := 1; (alpha*float64(b)+beta)*(1+1/n) <= slo+1e-9; b++ {
			batch = b
		}
		return batch, 1000 * n * float64(batch) / (alpha*float64(batch) + beta)
	}
	for _, printed := range []struct {
		alpha, beta, slo     float64
		apart, turns         int
		apartRate, turnsRate float64
	}{{1.053, 5.072, 25, 7, 16, 4501, 5839}, {5.090, 18.368, 70, 3, 8, 713, 1083}} {
		batch, rate := turns(printed.alpha, printed.beta, printed.slo, 8)
		assert.Equal(t, printed.turns, batch)
		assert.InDelta(t, printed.turnsRate, rate, 1)
		alone, _ := turns(printed.alpha, printed.beta, printed.slo, 1) // apart, each waits for itself
		assert.Equal(t, printed.apart, alone)
		assert.InDelta(t, printed.apartRate, 8000*float64(alone)/(printed.alpha*float64(alone)+printed.beta), 1)
	}
	all := append(Of(partTable4), Of(partDevices)...)
	require.Greater(t, len(all), 10)
	var out Result
	for i := range all {
		all[i].Delay.Control = time.Nanosecond // leaves the physical limit out, which takes long
	}
	require.NoError(t, bounds(t.Context(), &Env{}, all, Effort{}, &out))
	require.Len(t, out.Rows, len(all))
	for i, s := range all {
		n := s.Models[0]
		_, rate := turns(n.Each, n.Fixed, n.SLO, s.Devices)
		assert.InEpsilon(t, rate, out.Rows[i].Ours, 1e-9, s.Name)
	}
}

// TestMachinesByHand makes table II of Harpagon again: module M3 at 198 requests a second
// within a second.
func TestMachinesByHand(t *testing.T) {
	type configuration struct{ batch, seconds float64 }
	m3 := []configuration{{32, 0.8}, {8, 0.25}, {2, 0.1}} // cheapest first
	turns := func(c configuration, _ float64) bool { return 2*c.seconds <= 1 }
	aware := func(c configuration, rate float64) bool { return c.seconds+c.batch/rate <= 1 }
	// serve takes full machines of the cheapest configuration that is in time for the rate
	// that is left, and goes on with what is left of it.
	var serve func(rate float64, most int, full func(configuration, float64) bool) float64
	serve = func(rate float64, most int, full func(configuration, float64) bool) float64 {
		if rate < 1e-9 {
			return 0
		}
		for _, c := range m3 {
			speed := c.batch / c.seconds
			machines := math.Floor(rate/speed + 1e-9)
			left := rate - machines*speed
			switch {
			case left < 1e-9:
				if full(c, rate) {
					return machines
				}
			case most == 1: // the last configuration serves all that is left, on a part of a machine, too
				if (machines == 0 || full(c, rate)) && aware(c, left) {
					return rate / speed
				}
			case machines > 0 && full(c, rate):
				if rest := serve(left, most-1, full); !math.IsInf(rest, 1) {
					return machines + rest
				}
			case machines == 0 && aware(c, rate):
				return rate / speed
			}
		}
		return math.Inf(1)
	}
	padded := math.Inf(1)
	for dummy := range 41 {
		padded = min(padded, serve(198+float64(dummy), 9, aware))
	}
	r, err := table2(t.Context(), &Env{})
	require.NoError(t, err)
	require.Len(t, r.Rows, 4)
	for i, want := range []float64{serve(198, 2, turns), serve(198, 2, aware), serve(198, 9, aware), padded} {
		assert.InDelta(t, want, r.Rows[i].Ours, 1e-9, r.Rows[i].System)
		assert.InDelta(t, want, *r.Rows[i].Paper, 1e-9, r.Rows[i].System)
	}
}
