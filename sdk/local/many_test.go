//go:build !noserver

package local_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
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

// TestManyPlans carries out as many changes as HARPAGON_PLANS says, one after the other
// under load, and says what is left of them: in histories, database and memory.
func TestManyPlans(t *testing.T) {
	changes, _ := strconv.Atoi(os.Getenv("HARPAGON_PLANS"))
	if changes == 0 {
		t.Skip("HARPAGON_PLANS=1000 carries out so many changes")
	}
	state := t.TempDir()
	s, err := local.Start(t.Context(), local.Options{Files: []string{emulatedFolder(t)}, StateDir: state, Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ctl := control.New(s.Temporal(), control.Options{Poll: 20 * time.Millisecond})
	load := startStream(s.Client(), "emulated", 50*time.Millisecond)
	left := remains{t: t, client: s.Temporal(), state: state, longest: map[string]int64{}, began: time.Now()}
	left.tell(0)
	for n := 1; n <= changes; n++ {
		began := time.Now()
		reply, err := ctl.Rescale(t.Context(), "emulated", workflows.RescaleRequest{Rate: []float64{40, 150}[n%2]})
		require.NoError(t, err, "change %d was asked for after %v, and not accepted within %v", n, time.Since(left.began), time.Since(began))
		status, err := ctl.WaitServing(t.Context(), "emulated", reply.Generation, nil)
		require.NoError(t, err, "change %d did not serve within %v", n, time.Since(began))
		left.slowest = max(left.slowest, time.Since(began))
		require.Equal(t, reply.Generation, status.Serving)
		left.look()
		if 20*n/changes > 20*(n-1)/changes {
			left.tell(n)
		}
	}
	answered, failed := load.end()
	all := 0
	for _, n := range answered {
		all += n
	}
	t.Logf("%d requests answered, by %d generations", all, len(answered))
	assert.Empty(t, failed)
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
	longest map[string]int64 // history, in events, by workflow
	slowest time.Duration    // of the changes since it was told
}

// look notes how long histories are.
func (r *remains) look() {
	for _, id := range []string{workflows.ServiceID(scheduler.KindPipeline, "emulated"), activities.FleetID} {
		d, err := r.client.DescribeWorkflowExecution(r.t.Context(), id, "")
		require.NoError(r.t, err)
		r.longest[id] = max(r.longest[id], d.WorkflowExecutionInfo.HistoryLength)
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
