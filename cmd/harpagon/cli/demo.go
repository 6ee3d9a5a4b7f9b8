package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire"
)

// demoPictures is how many answers the demonstration shows.
const demoPictures = 4

type demoFlags struct {
	options  system.Options
	duration time.Duration
	rate     float64
	seed     uint64
	keep     bool
}

// newDemoCommand makes harpagon demo.
func newDemoCommand(d *Deps) *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the traffic example from declaration to report",
		Long: `Starts Temporal with its UI, measures the modules of the traffic example on this
machine, plans, starts executors and serves; sends the example's pictures through
the SDK at the declared rate; prints what was found in a few of them, how many
requests kept the objective, where their time went, and what it costs. Then it
stops and removes its state folder, or stays up with --keep.

It exits with 1 when answers are wrong, when requests are lost or fail for other
reasons than time, or when clearly fewer were in time than planned. Chance, and what
other programs use of the machine, are allowed for.`,
		Example: `  harpagon demo
  harpagon demo --keep
  harpagon demo --rate 20 --duration 1m`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.StringVar(&f.options.StateDir, "state", "", "state `folder`, kept at the end; a temporary one when empty")
	flags.StringVar(&f.options.HTTPAddr, "http", "", "`address` for requests; a free port of 127.0.0.1 when empty")
	flags.StringVar(&f.options.UIAddr, "ui", "", "`address` for Temporal's UI; a free port of 127.0.0.1 when empty")
	flags.DurationVar(&f.duration, "duration", 20*time.Second, "how long to send")
	flags.Float64Var(&f.rate, "rate", 0, "frames per second to declare and to send; 0 leaves what is declared")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the arrivals")
	flags.BoolVar(&f.keep, "keep", false, "stay up until interrupted")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), d) }
	return c
}

func (f *demoFlags) run(ctx context.Context, d *Deps) (err error) {
	if d.Start == nil {
		return ErrNoServer
	}
	d.Settle(ctx)
	frames, err := traffic.Frames()
	if err != nil {
		return err
	}
	remove, err := f.folder()
	if err != nil {
		return err
	}
	defer remove()
	if err := f.unpack(); err != nil {
		return err
	}
	f.options.Environ = d.Environ
	s, err := start(ctx, d, f.options)
	if err != nil {
		return err
	}
	defer stopSystem(d, s, &err)
	status := s.Services[0]
	fmt.Fprintf(d.Stdout, "\n%s\n", status.Plan.Describe())
	run := newDemoRun(status.Plan.Pipeline.SLO, f.duration)
	f.show(ctx, d, s.Client(), frames, run)
	before, _ := executors.ReadProcessors() // where it is not known, the verdict does without
	report, err := f.offer(ctx, d, s.Client(), frames, status.Rate, run)
	if err != nil {
		return err
	}
	after, _ := executors.ReadProcessors()
	fmt.Fprintf(d.Stdout, "\n%s\n", report.Describe())
	fmt.Fprintf(d.Stdout, "cost         %.4f per hour\n", status.Cost)
	fmt.Fprintf(d.Stdout, "Temporal UI  %s\nendpoint     %s/v2/models/%s\n", s.UIURL, s.GatewayURL, status.Name)
	if ctx.Err() != nil {
		return errors.New("stopped before the end, so there is no verdict")
	}
	text, failed := verdict(run.findings(report, promised(status.Plan.Pipeline), after.Since(before)))
	fmt.Fprintf(d.Stdout, "\n%s", text)
	if run.first != nil {
		fmt.Fprintf(d.Stdout, "        first error: %v\n", run.first)
	}
	if f.keep {
		fmt.Fprintf(d.Stdout, "\nIt stays up until you press Ctrl-C. In another terminal:\n  harpagon status --state %s\n  harpagon load traffic --state %s --rate 20 \\\n    --input frame=%s\n",
			f.options.StateDir, f.options.StateDir, filepath.Join(f.options.StateDir, "example", "scenes"))
		<-ctx.Done()
	}
	if failed {
		return ErrReported
	}
	return nil
}

// promised is the attainment that the demonstration holds its run to: what the plan
// expects, where that is less than the target.
func promised(p *plan.Plan) float64 {
	if p.Expected == nil {
		return demoTarget
	}
	return min(demoTarget, p.Expected.Low)
}

// folder makes a fresh state folder where none is named. remove takes it away
// again, unless it is to be kept.
func (f *demoFlags) folder() (remove func(), err error) {
	if f.options.StateDir != "" {
		return func() {}, nil
	}
	f.options.StateDir, err = os.MkdirTemp("", "harpagon-demo-")
	if err != nil {
		return nil, fmt.Errorf("no folder for the state: %w; name one with --state", err)
	}
	return func() {
		if !f.keep {
			_ = os.RemoveAll(f.options.StateDir) // what is left of a temporary folder harms nobody
		}
	}, nil
}

// unpack writes the example beside the state, so that the command works from
// any folder.
func (f *demoFlags) unpack() error {
	folder := filepath.Join(f.options.StateDir, "example")
	err := fs.WalkDir(traffic.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		to := filepath.Join(folder, filepath.FromSlash(path))
		if err != nil || entry.IsDir() {
			return firstError(err, os.MkdirAll(to, 0o755))
		}
		raw, err := fs.ReadFile(traffic.Files(), path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, raw, 0o644)
	})
	f.options.Files = []string{folder}
	if f.rate > 0 {
		f.options.Vars = map[string]string{"rate": fmt.Sprint(f.rate)}
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// show sends a few pictures one by one. One without an answer is reported, and the next one
// tried: a busy machine may miss one objective.
func (f *demoFlags) show(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame, run *demoRun) {
	shownFrames := 0
	for _, frame := range frames {
		if len(frame.Truth) == 0 || shownFrames == demoPictures || ctx.Err() != nil {
			continue
		}
		shownFrames++
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame.Pixels})
		if err != nil {
			run.add(frame, -1, 0, nil, err)
			fmt.Fprintf(d.Stdout, "%s  not answered: %v\n", frame.Name, err)
			continue
		}
		outputs := outputsOf(result.Response())
		run.add(frame, -1, result.Elapsed(), outputs, nil)
		fmt.Fprintf(d.Stdout, "%s  %.1f ms\n  found  %s\n  drawn  %s\n", frame.Name, quantity.Millis(result.Elapsed()),
			wrapped(traffic.Describe(outputs), lineWidth-9, "         "), wrapped(frame.Drawn(), lineWidth-9, "         "))
	}
}

func outputsOf(response *wire.InferResponse) map[string]wire.Tensor {
	outputs := map[string]wire.Tensor{}
	for _, o := range response.Outputs {
		outputs[o.Name] = o.Tensor
	}
	return outputs
}

// demoWarmup is sent before what is counted.
const demoWarmup = 2 * time.Second

func (f *demoFlags) offer(ctx context.Context, d *Deps, client *sdk.Client, frames []traffic.Frame, rate float64, run *demoRun) (*load.Report, error) {
	fmt.Fprintf(d.Stderr, "\nsending %d pictures over and over at %.4g/s for %v\n", len(frames), rate, f.duration)
	begin := time.Now().Add(demoWarmup)
	return load.Run(ctx, load.Options{
		Pipeline: "traffic", SLO: run.slo, Rate: rate, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson},
		Duration: f.duration, Warmup: demoWarmup, Seed: f.seed, Progress: loadProgress(d),
	}, func(ctx context.Context, n int) (*wire.InferResponse, error) {
		frame, sent := frames[n%len(frames)], time.Now()
		result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame.Pixels})
		if err != nil {
			run.add(frame, sent.Sub(begin), 0, nil, err)
			return nil, err
		}
		run.add(frame, sent.Sub(begin), time.Since(sent), outputsOf(result.Response()), nil)
		return result.Response(), nil
	})
}

// What the demonstration holds its run to.
const (
	demoTarget     = 0.99  // attainment that is declared
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
		return finding{text + ": too few requests to judge; --duration 1m sends more", false}
	case bound.High < allowed:
		return finding{text + fmt.Sprintf(": less than chance and others explain (at most %.4f, and %.4f would do)", bound.High, allowed), true}
	case allowed < target:
		return finding{text + ": what others use of the machine may be why; try again when it is calm", false}
	}
	return finding{text + ": within what chance explains; --duration 2m measures longer", false}
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

// verdict writes the findings and reports whether the demonstration failed.
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
