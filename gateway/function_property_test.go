package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// script is what a provider does with its calls, in turn, each after a while.
type script struct {
	mu    sync.Mutex
	turns []turn
	calls int
	now   int
	most  int
}

type turn struct {
	kind string // "", "500", "429", "garbage", "refuse"
	took time.Duration
}

// RoundTrip plays the next turn, without a network.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	}
	s.mu.Lock()
	one := s.turns[s.calls%len(s.turns)]
	s.calls++
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(one.took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Retry-After": {"0.05"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	switch one.kind {
	case "500":
		return answer(500, "boom")
	case "429":
		return answer(429, "busy")
	case "garbage":
		return answer(200, "<html>")
	}
	return direct{http.HandlerFunc(good)}.RoundTrip(r)
}

// visit is one request of a drawn run.
type visit struct {
	at, leaves time.Duration // leaves: after which its caller goes; 0 never
	app        int
}

// TestEveryRequestHasOneOutcome runs drawn requests against drawn providers on a
// clock of its own, with callers who leave and a plan that changes, and checks
// what must hold whatever comes.
func TestEveryRequestHasOneOutcome(t *testing.T) {
	milliseconds := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, "ms")) * time.Millisecond
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := &script{turns: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) turn {
			return turn{rapid.SampledFrom([]string{"", "", "", "500", "429", "garbage"}).Draw(t, "kind"), milliseconds(300).Draw(t, "took")}
		}), 1, 6).Draw(rt, "turns")}
		visits := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) visit {
			v := visit{at: milliseconds(1500).Draw(t, "at"), app: rapid.IntRange(0, 1).Draw(t, "app")}
			if rapid.IntRange(0, 5).Draw(t, "patience") == 0 {
				v.leaves = milliseconds(300).Draw(t, "leaves") + time.Millisecond
			}
			return v
		}), 1, 60).Draw(rt, "visits")
		limit := rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "limit")
		change := milliseconds(1500).Draw(rt, "change")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = play(t, p, visits, limit, change) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// play runs the visits and reports what does not hold.
func play(t *testing.T, p *script, visits []visit, limit int, change time.Duration) string {
	var mu sync.Mutex
	var wrong []string
	ended := 0
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	g := New(Options{Invoker: serverless.NewInvoker(serverless.InvokerOptions{Client: &http.Client{Transport: p}}), Observer: Observer{
		RequestEnd: func(RequestInfo) { mu.Lock(); defer mu.Unlock(); ended++ },
	}})
	narrow := func(_ *pipelines.Function, c *pipelines.Provider) { c.Concurrency = limit }
	d := deploy(t, 1, narrow)
	if err := g.Install(t.Context(), d); err != nil {
		return err.Error()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(change)
		next := deploy(t, 2, narrow, func(f *pipelines.Function, _ *pipelines.Provider) { f.Applications[1].Rate = 5 })
		if err := g.Install(context.Background(), next); err != nil {
			note("%v", err)
		}
	})
	for _, v := range visits {
		wg.Go(func() {
			time.Sleep(v.at)
			ctx := context.Background()
			if v.leaves > 0 {
				var leave context.CancelFunc
				ctx, leave = context.WithCancel(ctx)
				defer time.AfterFunc(v.leaves, leave).Stop()
			}
			a := d.Function.Function.Applications[v.app]
			begin := time.Now()
			r, err := g.Infer(ctx, askOf(a.Name, float32(v.at), 0))
			if why := checkEnd(*d.Function, a, v, limit, time.Since(begin), r, err); why != "" {
				note("%+v: %s", v, why)
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, n := range g.Totals("net") {
		sum += n
	}
	_ = g.Close()
	if sum != int64(len(visits)) || ended != len(visits) {
		note("%d requests, %d outcomes, %d of them observed", len(visits), sum, ended)
	}
	if p.most > limit {
		note("%d calls at once where %d may run", p.most, limit)
	}
	return strings.Join(wrong, "\n")
}

// checkEnd reports what is wrong with the end of one request.
func checkEnd(d functions.Deployment, a pipelines.Application, v visit, limit int, took time.Duration, r *wire.InferResponse, err error) string {
	switch e, _ := err.(*wire.Error); {
	case err != nil && e == nil:
		return fmt.Sprintf("an error without a type: %v", err)
	case err != nil && e.Code == wire.CodeCanceled && (v.leaves == 0 || took < v.leaves):
		return "cancelled, although no caller left"
	case err != nil:
		return ""
	case r.Elapsed != took:
		return fmt.Sprintf("took %v and reports %v", took, r.Elapsed)
	case v.leaves > 0 && took > v.leaves:
		return "answered after its caller had gone"
	}
	st := r.Stages[0]
	if limit == 1000 && r.Generation == 1 {
		for _, share := range d.Plan.Groups[0].Applications {
			if share.Name == a.Name && st.Wait > share.Timeout {
				return fmt.Sprintf("waited %v, longer than its timeout of %v", st.Wait, share.Timeout)
			}
		}
	}
	if st.Batch > d.Plan.Groups[0].Batch && r.Generation == 1 {
		return fmt.Sprintf("a batch of %d", st.Batch)
	}
	return ""
}
