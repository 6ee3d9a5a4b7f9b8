package paper

import (
	"fmt"
	"strings"
	"time"
)

// splitting is a parsed Options.Split.
type splitting struct {
	kind string // "lc", "throughput", "quantized" or "even"
	step time.Duration
}

func parseSplit(s string) (splitting, error) {
	switch s {
	case "", "lc":
		return splitting{kind: "lc"}, nil
	case "throughput", "even":
		return splitting{kind: s}, nil
	}
	if text, ok := strings.CutPrefix(s, "quantized:"); ok {
		step, err := time.ParseDuration(text)
		if err == nil && step >= time.Millisecond {
			return splitting{kind: "quantized", step: step}, nil
		}
		return splitting{}, fmt.Errorf("plan: split %q: the step must be a duration of 1ms or more, as in quantized:10ms", s)
	}
	return splitting{}, fmt.Errorf("plan: there is no split %q; there is lc, throughput, even and quantized:10ms with any step", s)
}

// even gives every module an equal share: the SLO over the number of modules
// on the longest path, counted in modules, that passes through it.
func (p *search) even() []time.Duration {
	ones := make([]time.Duration, len(p.Modules))
	for i := range ones {
		ones[i] = 1
	}
	budgets := make([]time.Duration, len(p.Modules))
	for i, others := range p.DAG.Around(ones) {
		budgets[i] = p.Pipeline.SLO / (others + 1)
	}
	return budgets
}
