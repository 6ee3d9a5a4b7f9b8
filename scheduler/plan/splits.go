package plan

import (
	"fmt"
	"strings"
	"time"
)

// split is a parsed Options.Split.
type split struct {
	kind string // "lc", "throughput", "quantized" or "even"
	step time.Duration
}

func parseSplit(s string) (split, error) {
	switch s {
	case "", "lc":
		return split{kind: "lc"}, nil
	case "throughput", "even":
		return split{kind: s}, nil
	}
	if text, ok := strings.CutPrefix(s, "quantized:"); ok {
		step, err := time.ParseDuration(text)
		if err == nil && step >= time.Millisecond {
			return split{kind: "quantized", step: step}, nil
		}
		return split{}, fmt.Errorf("plan: split %q: the step must be a duration of 1ms or more, as in quantized:10ms", s)
	}
	return split{}, fmt.Errorf("plan: there is no split %q; there is lc, throughput, even and quantized:10ms with any step", s)
}

// even gives every module an equal share: the SLO over the number of modules
// on the longest path, counted in modules, that passes through it.
func (p *planner) even() []time.Duration {
	ones := make([]time.Duration, len(p.modules))
	for i := range ones {
		ones[i] = 1
	}
	budgets := make([]time.Duration, len(p.modules))
	for i, others := range p.dag.around(ones) {
		budgets[i] = p.pipe.SLO / (others + 1)
	}
	return budgets
}
