package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
)

// tally is what became of requests.
type tally struct{ sent, inTime, late, dropped, failed, untyped, wrong int }

func (t *tally) add(o outcome) {
	t.sent++
	var e *wire.Error
	switch typed := errors.As(o.err, &e); {
	case o.err == nil && o.wrong:
		t.wrong++
	case o.err == nil && o.took > objective:
		t.late++
	case o.err == nil:
		t.inTime++
	case !typed:
		t.untyped++
	case e.Code == wire.CodeDeadline || e.Code == wire.CodeOverloaded:
		t.dropped++
	default:
		t.failed++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d sent = %d in time + %d late + %d past their deadline or refused + %d unavailable + %d with an error of no type + %d wrong",
		t.sent, t.inTime, t.late, t.dropped, t.failed, t.untyped, t.wrong)
}

// well reports whether a request was answered rightly and in time.
func (o outcome) well() bool { return o.err == nil && !o.wrong && o.took <= objective }

func (o outcome) ended() time.Time { return o.sent.Add(o.took) }

// felt is what a group of faults did.
type felt struct {
	times tally
	long  []time.Duration // of each fault: from its begin until the last request that was not well ended
	whole []time.Duration // of each: from when its cause was gone until the fleet was whole
}

// verdict reports what became of all requests, and for how long each kind of fault was felt.
// A request that was not well counts with the last fault that began before it ended.
func (l *load) verdict(done []happened, conserved error) error {
	all, groups, reasons := tally{}, map[string]*felt{}, map[string]int{}
	long := make([]time.Duration, len(done))
	var took []time.Duration
	for _, h := range done {
		if groups[h.group()] == nil {
			groups[h.group()] = new(felt)
		}
	}
	for _, o := range l.all {
		all.add(o)
		took = append(took, o.took)
		i, _ := slices.BinarySearchFunc(done, o.ended(), func(h happened, t time.Time) int { return h.at.Compare(t) })
		switch {
		case i > 0:
			groups[done[i-1].group()].times.add(o)
			if !o.well() {
				long[i-1] = max(long[i-1], o.ended().Sub(done[i-1].at))
				reasons[done[i-1].group()+": "+reason(o)]++
			}
		case !o.well():
			reasons["before any fault: "+reason(o)]++
		}
	}
	var failures []error
	for i, h := range done {
		g := groups[h.group()]
		g.long, g.whole = append(g.long, long[i]), append(g.whole, h.whole.Sub(h.over))
		if h.failure != nil {
			failures = append(failures, fmt.Errorf("%s %s: %w", h.at.Format(time.TimeOnly), h.name(), h.failure))
		}
	}
	slices.Sort(took)
	fmt.Printf("\n%d faults, %v\n", len(done), all)
	if len(took) > 0 {
		fmt.Printf("p50 %v, p99 %v, the longest %v\n", tenths(took[len(took)/2]), tenths(took[len(took)*99/100]), tenths(took[len(took)-1]))
	}
	within, outside := aftermath(l.all, done)
	fmt.Printf("sent within a second after a fault began: %s; all others: %s\n", within.share(), outside.share())
	fmt.Println("\n| fault | times | felt, p50 | longest | not in time | of these without an answer | whole again, p50 | longest |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := groups[name]
		slices.Sort(g.long)
		slices.Sort(g.whole)
		n := len(g.long)
		fmt.Printf("| %s | %d | %v | %v | %d | %d | %v | %v |\n", name, n, tenths(g.long[n/2]), tenths(g.long[n-1]), g.times.sent-g.times.inTime,
			g.times.sent-g.times.inTime-g.times.late, tenths(g.whole[n/2]), tenths(g.whole[n-1]))
	}
	fmt.Println()
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Printf("%6d %s\n", reasons[name], name)
	}
	if len(l.all) != l.begun {
		failures = append(failures, fmt.Errorf("%d requests were sent and %d ended", l.begun, len(l.all)))
	}
	if without := all.sent - all.inTime - all.late - all.wrong; l.every && without > 0 {
		failures = append(failures, fmt.Errorf("%d requests have no answer", without))
	}
	if all.wrong+all.untyped > 0 {
		failures = append(failures, fmt.Errorf("%d answers are wrong, %d errors have no type", all.wrong, all.untyped))
	}
	err := errors.Join(append(failures, conserved)...)
	if err == nil {
		fmt.Printf("verdict: %d faults, %d requests sent, each ended once, none wrong\n", len(done), all.sent)
	}
	return err
}

func tenths(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// figures differ from request to request and are replaced in reasons.
var figures = regexp.MustCompile(`[0-9.]+ (µs|ms|s)\b|:[0-9]{5}`)

func reason(o outcome) string {
	var e *wire.Error
	switch {
	case o.wrong:
		return "a wrong answer"
	case o.err == nil:
		return "late"
	case errors.As(o.err, &e):
		return fmt.Sprintf("%s: %s", e.Code, figures.ReplaceAllString(e.Reason, "…"))
	}
	return o.err.Error()
}

// metrics are those of a gateway, added up over their labels.
func metrics(ctx context.Context, gateway string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			n, _ := strconv.ParseFloat(value, 64)
			name, _, _ = strings.Cut(name, "{")
			all[name] += n
		}
	}
	return all, nil
}

// conserved holds that gateways have ended all that they have accepted.
func (f *fleet) conserved(ctx context.Context) error {
	for _, g := range f.gateways() {
		all, err := metrics(ctx, g)
		if err != nil {
			return err
		}
		accepted, ended, under := all["harpagon_requests_accepted_total"], all["harpagon_requests_ended_total"], all["harpagon_requests_in_flight"]
		fmt.Printf("\n%s has accepted %v requests since it started, ended %v, and has %v in flight\n", g, accepted, ended, under)
		if accepted != ended || under != 0 {
			return fmt.Errorf("%s has accepted %v requests, ended %v, and has %v in flight", g, accepted, ended, under)
		}
	}
	return nil
}

// second is for how long after a fault has begun requests may suffer from it.
const second = time.Second

// aftermath separates requests that were sent within the second after a fault began from
// all others.
func aftermath(all []outcome, done []happened) (within, outside tally) {
	for _, o := range all {
		t := &outside
		for _, h := range done {
			if since := o.sent.Sub(h.at); since >= 0 && since < second {
				t = &within
			}
		}
		t.add(o)
	}
	return within, outside
}

// share of the requests that were answered in time.
func (t tally) share() string {
	return fmt.Sprintf("%.3f %% of %d in time", 100*float64(t.inTime)/float64(max(1, t.sent)), t.sent)
}

const (
	objective = 300 * time.Millisecond // of the declaration, but in an upgrade
	deadline  = 5 * time.Second        // of a request
)

// outcome of one request.
type outcome struct {
	sent  time.Time
	took  time.Duration
	err   error
	wrong bool
}

type load struct {
	addresses []string
	every     bool // request must be answered
	mu        sync.Mutex
	all       []outcome
	begun     int
}

func newLoad(addresses []string) *load { return &load{addresses: addresses} }

// run sends requests at the rate until ctx ends, and waits for all answers. The load is
// open: no request waits for the answer before.
func (l *load) run(ctx context.Context, rate float64) error {
	client, err := sdk.Dial(ctx, l.addresses...)
	if err != nil {
		return err
	}
	defer client.Close()
	var under sync.WaitGroup
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second)))))
		l.begun++
		under.Go(func() { l.ask(client, n) })
	}
	under.Wait()
	return nil
}

func (l *load) ask(client *sdk.Client, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	x := make([]float32, 16)
	x[0], x[1] = float32(n), float32(n>>20)
	in := sdk.Float32(x, 16)
	o := outcome{sent: time.Now()}
	r, err := client.Infer(ctx, "gameday", sdk.Inputs{"frame": in})
	o.took, o.err = time.Since(o.sent), err
	if err == nil {
		// Every module answers with a checksum of what it was given.
		first := emulated.Checksum([]wire.Tensor{in})
		want := emulated.Checksum([]wire.Tensor{sdk.Float32([]float32{first}, 1)})
		got, err := r.Float32s("label")
		o.wrong = err != nil || len(got) != 1 || got[0] != want
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, o)
}
