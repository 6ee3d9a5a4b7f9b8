//go:build !noserver

package local_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// TestManyPlans carries out HARPAGON_PLANS changes under load, of HARPAGON_SERVICES
// services at once and of each one after the other, and reports what they leave in
// histories, database and memory. With HARPAGON_PLANS_FOR it ends after that time;
// HARPAGON_PLANS_HEAP is a folder for profiles of what lives in memory meanwhile.
func TestManyPlans(t *testing.T) {
	changes, _ := strconv.Atoi(os.Getenv("HARPAGON_PLANS"))
	if changes == 0 {
		t.Skip("HARPAGON_PLANS=1000 carries out so many changes")
	}
	limit, _ := time.ParseDuration(os.Getenv("HARPAGON_PLANS_FOR"))
	several, _ := strconv.Atoi(os.Getenv("HARPAGON_SERVICES"))
	names := []string{"emulated"}
	for n := 2; n <= several; n++ {
		names = append(names, fmt.Sprintf("emulated-%d", n))
	}
	state := t.TempDir()
	s, err := local.Start(t.Context(), local.Options{Files: []string{emulatedFolder(t, names[1:]...)}, StateDir: state, Environ: []string{}, WithoutUI: true, Temporal: local.Temporal}) // its memory counts, too
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ctl := control.New(s.Temporal(), control.Options{})
	left := remains{t: t, client: s.Temporal(), metrics: s.GatewayURL + "/metrics", state: state, longest: map[string]int64{}, began: time.Now()}
	left.tell(0)
	var loads []*stream
	var asked atomic.Int64
	type carried struct {
		name string
		took time.Duration
		err  error
	}
	done := make(chan carried)
	var changing sync.WaitGroup
	var underWay sync.RWMutex // changes: what they need while they are carried out is not left of them
	for _, name := range names {
		loads = append(loads, startStream(s.Client(), name, 50*time.Millisecond*time.Duration(len(names))))
		changing.Go(func() {
			for mine := 1; asked.Add(1) <= int64(changes) && (limit == 0 || time.Since(left.began) < limit); mine++ {
				underWay.RLock()
				began := time.Now()
				reply, err := ctl.Rescale(t.Context(), name, workflows.RescaleRequest{Rate: []float64{40, 150}[mine%2]})
				if err == nil {
					_, err = ctl.WaitServing(t.Context(), name, reply.Generation, nil)
				}
				underWay.RUnlock()
				if done <- (carried{name, time.Since(began), err}); err != nil {
					return
				}
			}
		})
	}
	go func() { changing.Wait(); close(done) }()
	n := 0
	for one := range done {
		n++
		assert.NoError(t, one.err, "change %d, which began %v before", n, one.took)
		left.slowest = max(left.slowest, one.took)
		if left.look(one.name); 20*n/changes > 20*(n-1)/changes {
			underWay.Lock()
			left.tell(n)
			underWay.Unlock()
		}
	}
	if n < changes {
		left.tell(n)
	}
	all, by := 0, 0
	for _, load := range loads {
		answered, failed := load.end()
		for _, n := range answered {
			all += n
		}
		by += len(answered)
		assert.Empty(t, failed)
	}
	t.Logf("%d requests answered, by %d generations", all, by)
	for id, n := range left.longest {
		assert.Less(t, n, int64(historyBound), id)
	}
	heaps := left.heaps[1:] // without the one before the first change
	half := len(heaps) / 2
	assert.LessOrEqual(t, slices.Max(heaps[half:]), slices.Max(heaps[:max(1, half)])+heapNoise, "what lives in memory grows with the changes")
}

// historyBound is more than the server lets a history grow before it has the workflow
// continue as new, and what may come while that waits for work under way.
const historyBound = 8000

// heapNoise is by how much what lives in memory differs from one look to the next, in MB.
const heapNoise = 25

// remains of changes.
type remains struct {
	t       *testing.T
	client  client.Client
	metrics string // address of the gateway's metrics
	state   string
	began   time.Time
	longest map[string]int64 // history, in events, by kind of workflow
	slowest time.Duration    // of the changes since the last report
	heaps   []float64        // live memory at each report, in MB
}

// look notes how long the histories of a service and of the fleet are.
func (r *remains) look(service string) {
	for kind, id := range map[string]string{"fleet": activities.FleetID, "service": workflows.ServiceID(scheduler.KindPipeline, service)} {
		d, err := r.client.DescribeWorkflowExecution(r.t.Context(), id, "")
		require.NoError(r.t, err)
		r.longest[kind] = max(r.longest[kind], d.WorkflowExecutionInfo.HistoryLength)
	}
}

func (r *remains) tell(changes int) {
	took := time.Since(r.began)
	var size int64
	files, err := filepath.Glob(filepath.Join(r.state, "temporal.db*"))
	require.NoError(r.t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(r.t, err)
		size += info.Size()
	}
	count, err := r.client.CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{Query: ""})
	require.NoError(r.t, err)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap := float64(m.HeapAlloc) / 1e6
	r.t.Logf("%d changes in %v, %.2f/s, the slowest of the last ones %v: longest histories %v events, %d workflows, database %.1f MB, resident %.0f MB, heap %.1f MB, %d goroutines, %d series of metrics",
		changes, took.Round(time.Second), float64(changes)/took.Seconds(), r.slowest.Round(time.Millisecond), r.longest, count.Count, float64(size)/1e6, resident(r.t), heap, runtime.NumGoroutine(), r.series())
	r.slowest, r.heaps = 0, append(r.heaps, heap)
	if folder := os.Getenv("HARPAGON_PLANS_HEAP"); folder != "" {
		r.keep("heap", filepath.Join(folder, fmt.Sprintf("heap-%06d", changes)))
		r.keep("goroutine", filepath.Join(folder, fmt.Sprintf("goroutines-%06d", changes)))
	}
}

func (r *remains) keep(profile, file string) {
	f, err := os.Create(file)
	require.NoError(r.t, err)
	require.NoError(r.t, pprof.Lookup(profile).WriteTo(f, 0))
	require.NoError(r.t, f.Close())
}

// series is how many the metrics of the gateway have.
func (r *remains) series() (n int) {
	answer, err := http.Get(r.metrics)
	require.NoError(r.t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "harpagon_") {
			n++
		}
	}
	require.NoError(r.t, lines.Err())
	return n
}

// resident is the memory of this process, in MB.
func resident(t *testing.T) float64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			require.NoError(t, err)
			return n / 1000
		}
	}
	return 0
}
