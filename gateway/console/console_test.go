package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/workflows"
)

const ms = time.Millisecond

// traffic is a service of two modules with a hostile name of one of them.
func traffic() workflows.Status {
	p := &plan.Plan{
		Pipeline: "traffic", Policy: "exact", CostModel: "whole", Sound: true, SLO: 400 * ms, Latency: 300 * ms,
		Expected: &plan.Expectation{Arrivals: "poisson", Attainment: 0.995, Low: 0.994},
		Modules: []plan.Module{
			{Name: "detect", Budget: 200 * ms, WorstCase: 150 * ms, Groups: []plan.Group{{Hardware: "cpu", Batch: 4, Duration: 80 * ms, Machines: 2}}},
			{Name: "<b>colour", Budget: 100 * ms, WorstCase: 90 * ms, Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Duration: 30 * ms, Machines: 1}}},
		},
	}
	return workflows.Status{
		Kind: pipelines.KindPipeline, Name: "traffic", Phase: workflows.Serving, Generation: 3, Serving: 3, Rate: 50, Cost: 3.6,
		Policy: "exact", CostModel: "whole", Dispatch: "tc", Plan: &scheduler.Plan{Pipeline: p},
		Executors: []placement.Slot{{Executor: "e1", Module: "detect", Host: "h", Device: "cpu/0", Engine: "gorgonia", Batch: 4, Share: 0.5}},
		Decisions: []workflows.Decision{
			{Generation: 2, At: time.Unix(1e9, 0), Reason: "applied", Failure: "it needs 4 cpu, 2 exist"},
			{Generation: 3, At: time.Unix(1e9+60, 0), Reason: "the rate has drifted", Change: workflows.Change{FromRate: 40, ToRate: 50, FromCost: 4, ToCost: 3.6}, Start: 1},
		},
		Void: []workflows.Pace{{Module: "detect", Hardware: "cpu", Size: 4, Measured: 99 * ms, Profiled: 80 * ms, Held: time.Minute}},
	}
}

func measured() autoscale.Measures {
	return autoscale.Measures{
		Pipeline: "traffic", Generation: 3, Offered: 25, Completed: 97, Late: 3, Attainment: 0.97,
		Latency: autoscale.Percentiles{P50: 120 * ms, P99: 380 * ms, Max: 420 * ms},
		Modules: []autoscale.ModuleMeasures{{
			Name: "detect", Rate: 25, Requests: 100, Batches: 30, MeanBatch: 3.3, Dropped: 2, Drops: map[string]int64{"late": 2},
			Queue: autoscale.Percentiles{P50: 10 * ms}, Wait: autoscale.Percentiles{P50: 20 * ms}, Compute: autoscale.Percentiles{P50: 80 * ms, P99: 120 * ms},
			Executors: []autoscale.ExecutorMeasures{{Executor: "e1", Utilisation: 0.42}},
			Durations: []autoscale.BatchDuration{{Hardware: "cpu", Size: 4, P50: 99 * ms, P95: 130 * ms}},
		}},
	}
}

func declared(string) (pipelines.Pipeline, bool) {
	return pipelines.Pipeline{Name: "traffic", Attainment: 0.99, Modules: []pipelines.Module{
		{Name: "<b>colour", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "detect", Port: "y"}}}},
		{Name: "detect"},
	}}, true
}

// source can be made to fail.
type source struct {
	down  atomic.Bool
	reads atomic.Int64
}

func (s *source) options() Options {
	return Options{Version: "v1", UI: "http://ui/", Source: Source{
		Services: func(context.Context) ([]workflows.Status, error) {
			s.reads.Add(1)
			if s.down.Load() {
				return nil, errors.New("no connection to <Temporal>")
			}
			return []workflows.Status{traffic()}, nil
		},
		Devices: func(context.Context) ([]devices.Reading, error) {
			busy := time.Duration(s.reads.Load()) * time.Second / 2
			return []devices.Reading{
				{DeviceStatus: executors.DeviceStatus{Host: "h", Device: "cpu/0", Hardware: "cpu", Executors: 1, Busy: busy}},
				{DeviceStatus: executors.DeviceStatus{Host: "h", Device: "cpu/1", Hardware: "cpu"}},
			}, nil
		},
		Measures: func() []autoscale.Measures { return []autoscale.Measures{measured()} },
		Pipeline: declared,
	}}
}

func get(c *Console, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestOverviewShowsWhetherPromisesHold(t *testing.T) {
	c := New(t.Context(), new(source).options())
	w := get(c, "/console/")
	require.Equal(t, http.StatusOK, w.Code)
	for _, said := range []string{
		`href="/console/services/traffic"`, "97 %", "of 99 % promised", "50 % of 50 planned", "120 ms, 380 ms", "objective 400 ms",
		"3.60 an hour", "0.04 per 1,000 requests", "promise void because detect", "97 % in time where 99 % are promised", "Without executors: 1 cpu",
	} {
		assert.Contains(t, w.Body.String(), said)
	}
	assert.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
	assert.NotContains(t, w.Body.String(), "style=", "the policy allows no inline style")
}

// What needs no action is no alarm, and either page shows that answers are emulated.
func TestAlarmsAreForAlarms(t *testing.T) {
	status := traffic()
	status.Void = nil
	status.Healed = []workflows.Pace{{Module: "detect", Hardware: "cpu", Size: 4, Measured: 70 * ms, Profiled: 80 * ms}}
	status.Away = &autoscale.Advice{Reschedule: true, Rate: 20, Planned: 50, Held: time.Minute}
	status.Executors[0].Engine = placement.Emulated
	m := measured()
	m.Late, m.Completed, m.Attainment = 0, 100, 1
	o := new(source).options()
	o.Source.Services = func(context.Context) ([]workflows.Status, error) { return []workflows.Status{status}, nil }
	o.Source.Measures = func() []autoscale.Measures { return []autoscale.Measures{m} }
	c := New(t.Context(), o)
	overview, page := get(c, "/console/").Body.String(), get(c, "/console/services/traffic").Body.String()
	for _, body := range []string{overview, page} {
		assert.NotContains(t, body, `class="attention"`)
		assert.Contains(t, body, `<span class="badge">emulated</span>`)
	}
	assert.Contains(t, page, "answers of traffic are emulated: no network runs for detect")
	assert.Contains(t, page, "detect is planned with 70 ms")
	assert.Contains(t, page, "requests come otherwise than planned for")

	status.Away.Rate = 80
	status.Executors[0].Engine = "gorgonia"
	overview = get(New(t.Context(), o), "/console/").Body.String()
	assert.Contains(t, overview, `class="attention"`)
	assert.NotContains(t, overview, "emulated")
}

func TestServiceShowsPlanBesideMeasured(t *testing.T) {
	c := New(t.Context(), new(source).options())
	w := get(c, "/console/services/traffic")
	require.Equal(t, http.StatusOK, w.Code)
	page := w.Body.String()
	for _, said := range []string{
		"2 × batch 4", "budget 200 ms", "spent 110 ms", "99 ms in the middle, 130 ms for 95 of 100", "99.5 %", "420 ms the longest seen",
		"2 late", "42 %", "the rate has drifted", "saves 0.4 per hour", "Not carried out: it needs 4 cpu, 2 exist",
		`href="http://ui/namespaces/default/workflows/pipeline%2Ftraffic"`, "&lt;b&gt;colour",
	} {
		assert.Contains(t, page, said)
	}
	assert.NotContains(t, page, "<b>colour", "names are escaped, in pictures too")
	assert.Less(t, strings.Index(page, "the rate has drifted"), strings.Index(page, "Not carried out"), "latest first")
	require.Equal(t, http.StatusNotFound, get(c, "/console/services/nobody").Code)
	require.Equal(t, http.StatusNotFound, get(c, "/console/else").Code)
}

func TestTemporalAwayShowsWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := new(source)
		c := New(ctx, s.options())
		get(c, "/console/")
		s.down.Store(true)
		time.Sleep(3 * time.Second)
		page := get(c, "/console/").Body.String()
		assert.Contains(t, page, "Temporal does not answer: plans and devices are as of")
		assert.Contains(t, page, "no connection to &lt;Temporal&gt;")
		assert.Contains(t, page, `href="/console/services/traffic"`)
		cancel()
		synctest.Wait()
	})
}

func TestDevicesAreAsBusyAsTheyWereSinceTheLastReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(ctx, new(source).options())
		c.reader.read(ctx)
		time.Sleep(2 * time.Second)
		s := c.reader.read(ctx) // half a second of work more
		assert.InDelta(t, 0.25, s.devices[0].busy, 1e-9)
		assert.Empty(t, s.devices[1].history, "nothing is known yet")
		time.Sleep(heartbeat)
		assert.Equal(t, []float64{0}, c.reader.read(ctx).devices[1].history)
		cancel()
		synctest.Wait()
	})
}

func TestHistoryKeepsTheLatestMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(ctx, new(source).options())
		time.Sleep((samples + 20) * sampleEvery)
		synctest.Wait()
		assert.Len(t, c.history.of("traffic"), samples)
		c.history.add(nil)
		assert.Empty(t, c.history.of("traffic"), "what is not served is forgotten")
		cancel()
		synctest.Wait()
	})
}

func TestLiveRendersOnceForAllViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := new(source)
		c := New(ctx, s.options())
		var leaves []func()
		var streams []<-chan []byte
		for range 10 {
			updates, leave, err := c.live.join(Root)
			require.NoError(t, err)
			streams, leaves = append(streams, updates), append(leaves, leave)
		}
		time.Sleep(updateEvery + time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 1, s.reads.Load(), "ten viewers, one reading")
		for _, updates := range streams {
			var page string
			require.NoError(t, json.Unmarshal(<-updates, &page))
			assert.Contains(t, page, "traffic")
		}
		for _, leave := range leaves {
			leave()
		}
		time.Sleep(10 * updateEvery)
		assert.EqualValues(t, 1, s.reads.Load(), "nobody looks")
		assert.Empty(t, c.live.feeds)
		cancel()
		synctest.Wait()
	})
}

func TestStreamsEndWithTheGateway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := New(ctx, new(source).options())
	server := httptest.NewServer(c)
	defer server.Close()
	r, err := http.Get(server.URL + "/console/live?page=/console/")
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	cancel()
	_, err = r.Body.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestViewersAreBounded(t *testing.T) {
	c := New(t.Context(), new(source).options())
	for range maxViewers {
		_, leave, err := c.live.join(Root)
		require.NoError(t, err)
		defer leave()
	}
	require.Equal(t, http.StatusServiceUnavailable, get(c, "/console/live?page=/console/").Code)
}

func TestTokenIsAskedFor(t *testing.T) {
	o := new(source).options()
	o.Callers = secure.Credentials{Token: "secret"}.Guard()
	c := New(t.Context(), o)
	for _, path := range []string{"/console/", "/console/live", "/console/style.css"} {
		require.Equal(t, http.StatusUnauthorized, get(c, path).Code)
	}
	require.Equal(t, http.StatusUnauthorized, get(c, "/console/", "Authorization", "Bearer wrong").Code)
	require.Equal(t, http.StatusOK, get(c, "/console/", "Authorization", "Bearer secret").Code)
	r := httptest.NewRequest(http.MethodGet, "/console/", nil)
	r.SetBasicAuth("anyone", "secret")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
}

// A page of one service, rendered.
func BenchmarkPage(b *testing.B) {
	c := New(b.Context(), new(source).options())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.main(b.Context(), "/console/services/traffic"); err != nil {
			b.Fatal(err)
		}
	}
}
