package executors

import "time"

// RoundLimits say how long one batch size is measured: until there are MinRuns that
// took MinTime together, or MaxRuns, or a few that took MaxTime. While others
// use the processor, all sizes go on for up to Patience.
type RoundLimits struct {
	Warmups          int // runs before that do not count
	MinRuns, MaxRuns int
	MinTime, MaxTime time.Duration
	Patience         time.Duration
}

// DefaultRoundLimits measures a batch size for about a third of a second.
func DefaultRoundLimits() RoundLimits {
	return RoundLimits{
		Warmups: 3, MinRuns: 20, MaxRuns: 500, MinTime: 300 * time.Millisecond, MaxTime: 3 * time.Second,
		Patience: 3 * time.Second,
	}
}

// WithDefaults has those of DefaultRoundLimits where a field is zero.
func (l RoundLimits) WithDefaults() RoundLimits {
	d := DefaultRoundLimits()
	if l.Warmups == 0 {
		l.Warmups = d.Warmups
	}
	if l.MinRuns == 0 {
		l.MinRuns = d.MinRuns
	}
	if l.MaxRuns == 0 {
		l.MaxRuns = d.MaxRuns
	}
	if l.MinTime == 0 {
		l.MinTime = d.MinTime
	}
	if l.MaxTime == 0 {
		l.MaxTime = d.MaxTime
	}
	if l.Patience == 0 {
		l.Patience = d.Patience
	}
	return l
}

// fewRuns is the least for a quantile to mean anything at all.
const fewRuns = 3

func (l RoundLimits) enough(runs []time.Duration) bool { return l.reached(runs, fewRuns) }

func (l RoundLimits) reached(runs []time.Duration, few int) bool {
	var spent time.Duration
	for _, d := range runs {
		spent += d
	}
	return len(runs) >= l.MaxRuns ||
		len(runs) >= l.MinRuns && spent >= l.MinTime ||
		len(runs) >= few && spent >= l.MaxTime
}
