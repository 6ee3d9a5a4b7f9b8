package pipelines

import "encoding/json"

type curveJSON struct {
	Batch int     `json:"batch"`
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
	Gamma float64 `json:"gamma"`
}

type gpuJSON struct {
	Xi1        float64 `json:"xi1"`
	Xi2        float64 `json:"xi2"`
	Slice      float64 `json:"tau_s,omitempty"`
	WholeGB    float64 `json:"Mmax_gb,omitempty"`
	Thresholds []int   `json:"batch_thresholds_for_gpu_mem,omitempty"`
	MaxBatch   int     `json:"max_batch,omitempty"`
}

type memoryJSON struct {
	PerRequestMB float64 `json:"per_request_mb,omitempty"`
	FixedMB      float64 `json:"fixed_mb,omitempty"`
	GPUGB        float64 `json:"gpu_gb,omitempty"`
}

type callsJSON struct {
	Way       float64 `json:"way_s,omitempty"`
	ColdStart float64 `json:"cold_start_s,omitempty"`
}

// JSON prints the profile as ReadFunctionProfile reads it.
func (p FunctionProfile) JSON() ([]byte, error) {
	var out struct {
		Avg    []curveJSON `json:"cpu_avg,omitempty"`
		Max    []curveJSON `json:"cpu_max,omitempty"`
		GPU    *gpuJSON    `json:"gpu,omitempty"`
		Memory *memoryJSON `json:"memory,omitempty"`
		Calls  *callsJSON  `json:"calls,omitempty"`
	}
	for _, c := range p.CPU {
		out.Avg = append(out.Avg, curveJSON{c.Batch, c.Avg.Alpha, c.Avg.Beta, c.Avg.Gamma})
		out.Max = append(out.Max, curveJSON{c.Batch, c.Max.Alpha, c.Max.Beta, c.Max.Gamma})
	}
	if g := p.GPU; g != nil {
		out.GPU = &gpuJSON{g.Xi1, g.Xi2, g.Slice, g.WholeGB, g.Thresholds, g.MaxBatch}
	}
	if m := p.Memory; m != (HostMemory{}) {
		out.Memory = &memoryJSON{m.PerRequestMB, m.FixedMB, m.GPUGB}
	}
	if c := p.Calls; c != (CallTimes{}) {
		out.Calls = &callsJSON{c.Way, c.ColdStart}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}
