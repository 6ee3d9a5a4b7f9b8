package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
)

const (
	objective = 300 * time.Millisecond // of the declaration
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
	mu        sync.Mutex
	all       []outcome
	begun     int
}

func newLoad(addresses []string) *load { return &load{addresses: addresses} }

// run asks at the rate until ctx ends, and waits for all answers. The load is open:
// nobody waits for the answer before.
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
	r, err := client.Infer(ctx, "kills", sdk.Inputs{"frame": in})
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

// tally counts outcomes.
type tally struct{ sent, inTime, late, failed, wrong int }

func (t *tally) add(o outcome) {
	t.sent++
	switch {
	case o.err != nil:
		t.failed++
	case o.wrong:
		t.wrong++
	case o.took > objective:
		t.late++
	default:
		t.inTime++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%6d sent, %6d in time, %4d late, %3d failed, %d wrong", t.sent, t.inTime, t.late, t.failed, t.wrong)
}

// within is how long after a loss a request may have been sent to count with it.
const within = time.Second

// verdict says what became of all requests, in the second after each loss, by role and
// way, and outside.
func (l *load) verdict(losses []loss) error {
	outside, gateways := tally{}, tally{}
	inside := map[string]*tally{}
	count := map[string]int{}
	reasons := map[string]int{}
	var took []time.Duration
	for _, s := range losses {
		k := s.role + ", " + s.how
		count[k]++
		if inside[k] == nil {
			inside[k] = new(tally)
		}
	}
	for _, o := range l.all {
		if o.err == nil {
			took = append(took, o.took)
		}
		// A request still under way when a process is lost belongs to that loss, too.
		i := slices.IndexFunc(losses, func(s loss) bool {
			return o.sent.Before(s.at.Add(within)) && o.sent.Add(o.took).After(s.at)
		})
		if i < 0 {
			outside.add(o)
		} else {
			inside[losses[i].role+", "+losses[i].how].add(o)
			if losses[i].role == "gateway" {
				gateways.add(o)
			}
		}
		if o.err != nil || o.wrong || o.took > objective {
			where := "outside" + after(losses, o.sent)
			if i >= 0 {
				where = losses[i].role + ", " + losses[i].how
			}
			reasons[where+": "+reason(o)]++
		}
	}
	slices.Sort(took)
	fmt.Printf("\n%d losses, %d requests, each with one outcome: %v\n", len(losses), l.begun, len(l.all) == l.begun)
	for k, t := range inside {
		fmt.Printf("within a second of %2d × %-22s %v\n", count[k], k, t)
	}
	share := float64(outside.inTime) / float64(max(outside.sent, 1))
	fmt.Printf("outside                                   %v: %.3f %% in time\n", outside, 100*share)
	if len(took) > 0 {
		fmt.Printf("p50 %v, p99 %v, the longest %v\n", took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	for k, n := range reasons {
		fmt.Printf("%5d %s\n", n, k)
	}
	wrong := outside.wrong
	for _, t := range inside {
		wrong += t.wrong
	}
	switch {
	case len(l.all) != l.begun || wrong > 0:
		return errors.New("requests without an outcome, or with a wrong one")
	case share < 0.999:
		return errors.New("fewer than 99.9 % in time outside a second of each loss")
	case gateways.failed > 0:
		return errors.New("requests failed with a gateway although there was another")
	}
	return nil
}

// after says how long after which loss a request was sent.
func after(losses []loss, sent time.Time) string {
	for _, s := range slices.Backward(losses) {
		if d := sent.Sub(s.at); d >= 0 {
			return fmt.Sprintf(", %v after %s, %s", d.Truncate(time.Second), s.role, s.how)
		}
	}
	return ""
}

// figures differ from request to request and are not told.
var figures = regexp.MustCompile(`[0-9.]+ (µs|ms|s)\b`)

func reason(o outcome) string {
	switch {
	case o.wrong:
		return "a wrong answer"
	case o.err == nil:
		return "late"
	}
	var e *wire.Error
	if errors.As(o.err, &e) {
		return fmt.Sprintf("%s: %s", e.Code, figures.ReplaceAllString(e.Reason, "…"))
	}
	return o.err.Error()
}
