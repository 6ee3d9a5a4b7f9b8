//go:build !noserver

package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// TestManyPlans carries out as many changes as HARPAGON_PLANS says under load, of
// HARPAGON_SERVICES services at once and of each one after the other, and says what is left
// of them: in histories, database and memory. With HARPAGON_PLANS_FOR it ends after that
// time.
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
	s, err := local.Start(t.Context(), local.Options{Files: []string{emulatedFolder(t, names[1:]...)}, StateDir: state, Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ctl := control.New(s.Temporal(), control.Options{})
	left := remains{t: t, client: s.Temporal(), state: state, longest: map[string]int64{}, began: time.Now()}
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
	for _, name := range names {
		loads = append(loads, startStream(s.Client(), name, 50*time.Millisecond*time.Duration(len(names))))
		changing.Go(func() {
			for mine := 1; asked.Add(1) <= int64(changes) && (limit == 0 || time.Since(left.began) < limit); mine++ {
				began := time.Now()
				reply, err := ctl.Rescale(t.Context(), name, workflows.RescaleRequest{Rate: []float64{40, 150}[mine%2]})
				if err == nil {
					_, err = ctl.WaitServing(t.Context(), name, reply.Generation, nil)
				}
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
			left.tell(n)
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
}

// historyBound is more than the server lets a history grow before it has the workflow
// continue as new, and what may come while that waits for work under way.
const historyBound = 8000

// remains of changes.
type remains struct {
	t       *testing.T
	client  client.Client
	state   string
	began   time.Time
	longest map[string]int64 // history, in events, by kind of workflow
	slowest time.Duration    // of the changes since it was told
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
	r.t.Logf("%d changes in %v, %.2f/s, the slowest of the last ones %v: longest histories %v events, %d workflows, database %.1f MB, resident %.0f MB, heap %.1f MB, %d goroutines",
		changes, took.Round(time.Second), float64(changes)/took.Seconds(), r.slowest.Round(time.Millisecond), r.longest, count.Count, float64(size)/1e6, resident(r.t), float64(m.HeapAlloc)/1e6, runtime.NumGoroutine())
	r.slowest = 0
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
