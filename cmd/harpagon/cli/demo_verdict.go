package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

// What the demonstration holds its run to.
const (
	demoTarget     = 0.99  // attainment that is asked for
	demoConfidence = 0.999 // that a shortfall is none by chance
	demoLeast      = 50    // requests from which on attainment is judged
	demoSlices     = 10    // stretches of time in which attainment is counted: misses come in bursts
	demoAccuracy   = 0.8   // share of vehicles found and named rightly; the networks reach more than 0.9
	demoSeen       = 20    // vehicles on the pictures that were answered, from which on that counts
	calm           = 0.05  // share of the machine that others use without being worth a word
)

// demoRun collects what came of the pictures that were sent.
type demoRun struct {
	slo, length time.Duration

	mu          sync.Mutex
	good, total [demoSlices]int64
	answers     map[string]string // the answer to each picture, by its name
	differing   map[string]bool   // pictures that were answered in different ways
	unreadable  int
	report      traffic.Report // of the first answer to each picture
	first       error          // the first request that failed
}

func newDemoRun(slo, length time.Duration) *demoRun {
	return &demoRun{slo: slo, length: length, answers: map[string]string{}, differing: map[string]bool{}}
}

// add notes one request: when it was sent, from the start of what is counted,
// and how long it took.
func (r *demoRun) add(frame traffic.Frame, at, took time.Duration, outputs map[string]wire.Tensor, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at >= 0 && r.length > 0 {
		slice := min(int(demoSlices*at/r.length), demoSlices-1)
		r.total[slice]++
		if err == nil && took <= r.slo {
			r.good[slice]++
		}
	}
	if err != nil {
		if r.first == nil {
			r.first = err
		}
		return
	}
	r.answer(frame, outputs)
}

// answer compares an answer with the earlier ones to the same picture.
func (r *demoRun) answer(frame traffic.Frame, outputs map[string]wire.Tensor) {
	found, err := traffic.Found(outputs)
	if err != nil {
		r.unreadable++
		return
	}
	var words []string
	for _, v := range found {
		words = append(words, v.Colour+" "+v.Kind)
	}
	text := strings.Join(words, ", ")
	earlier, seen := r.answers[frame.Name]
	switch {
	case !seen:
		r.answers[frame.Name] = text
		frame.Count(&r.report, found)
	case earlier != text:
		r.differing[frame.Name] = true
	}
}

// finding is one thing that was seen, and whether it is why the demonstration
// fails.
type finding struct {
	text string
	bad  bool
}

// findings judges a run. Wrong answers and lost requests count whatever the
// machine does besides. Attainment counts when it is below the target by more
// than chance explains, after what others used of the machine is allowed for: a
// core that others have is one that requests wait for.
func (r *demoRun) findings(report *load.Report, target float64, use executors.ProcessorUse) []finding {
	all := []finding{r.answered()}
	if failed, n := failures(report); n > 0 {
		all = append(all, finding{"requests failed for other reasons than time: " + failed, true})
	}
	if lost := report.Requests - report.Completed - report.Late - sum(report.Errors); lost != 0 {
		all = append(all, finding{fmt.Sprintf("%s lost: sent, and neither answered nor refused", quantity.Count(lost, "request")), true})
	}
	return append(all, r.attained(report, target, use))
}

func (r *demoRun) answered() finding {
	accuracy := r.report.Accuracy()
	switch {
	case r.unreadable > 0:
		return finding{quantity.Count(r.unreadable, "answer") + " could not be read", true}
	case len(r.differing) > 0:
		return finding{"answers differ from one time to the next for " + strings.Join(slices.Sorted(maps.Keys(r.differing)), ", "), true}
	case r.report.Objects >= demoSeen && accuracy < demoAccuracy:
		return finding{fmt.Sprintf("answers are wrong: only %.0f %% of the vehicles were found and named rightly", 100*accuracy), true}
	case len(r.answers) == 0:
		return finding{"no picture was answered", true}
	}
	return finding{fmt.Sprintf("answers are right: %s the same every time, %.0f %% of the vehicles found and named rightly",
		quantity.Count(len(r.answers), "picture"), 100*accuracy), false}
}

// attained compares the attainment with the target.
func (r *demoRun) attained(report *load.Report, target float64, use executors.ProcessorUse) finding {
	bound := simulate.OverTime(r.good[:], r.total[:], demoConfidence)
	allowed, besides := target, ""
	if use.Known() {
		share := use.Others / float64(use.Cores)
		if besides = "; " + use.Describe(); share > calm {
			allowed *= 1 - share
		}
	}
	text := fmt.Sprintf("attainment %.4f of %.4g expected%s", report.Attainment, target, besides)
	switch {
	case report.Attainment >= target:
		return finding{text, false}
	case report.Requests < demoLeast:
		return finding{text + ": too few requests to tell; --duration 1m sends more", false}
	case bound.High < allowed:
		return finding{text + fmt.Sprintf(": less than chance and others explain (at most %.4f, and %.4f would do)", bound.High, allowed), true}
	case allowed < target:
		return finding{text + ": what others use of the machine may be why; try again when it is calm", false}
	}
	return finding{text + ": within what chance explains; --duration 2m tells more", false}
}

// failures are requests that ended in something else than lateness: the codes
// that an overloaded or slow machine gives are not among them.
func failures(report *load.Report) (text string, n int) {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(report.Errors)) {
		if code != string(wire.CodeDeadline) && code != string(wire.CodeOverloaded) {
			parts = append(parts, fmt.Sprintf("%d %s", report.Errors[code], code))
			n += report.Errors[code]
		}
	}
	return strings.Join(parts, ", "), n
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// verdict writes the findings and says whether the demonstration failed.
func verdict(all []finding) (text string, failed bool) {
	var b strings.Builder
	for _, f := range all {
		mark := "ok"
		if f.bad {
			mark, failed = "FAILED", true
		}
		fmt.Fprintf(&b, "%-7s %s\n", mark, wrapped(f.text, lineWidth-8, "        "))
	}
	return b.String(), failed
}
