package activities

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// reserving is a fleet that refuses what was placed before another reserved.
type reserving struct {
	client.Client
	mu       sync.Mutex
	view     FleetView
	attempts int
}

func (r *reserving) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := converter.GetDefaultDataConverter().ToPayloads(r.view)
	return client.NewValue(p), err
}

func (r *reserving) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := o.Args[0].(Reservation)
	if r.attempts++; in.Version != r.view.Version {
		return nil, temporal.NewApplicationError("another was faster", TypeConflict)
	}
	r.view.Version++
	reserved := map[string][]placement.Slot{in.Service: in.Slots}
	for service, slots := range r.view.Reserved {
		reserved[service] = slots
	}
	r.view.Reserved = reserved
	return reservedHandle{}, nil
}

type reservedHandle struct{ client.WorkflowUpdateHandle }

func (reservedHandle) Get(context.Context, any) error { return nil }

// TestServicesAreSettledInTurn: however many services are placed at once, each is placed once,
// and no device has more than it can do.
func TestServicesAreSettledInTurn(t *testing.T) {
	const many = 40
	var devices []placement.Device
	for i := range many / 2 {
		devices = append(devices, placement.Device{Host: "one", Name: fmt.Sprint("cpu/", i), Hardware: "cpu"})
	}
	fleet := &reserving{view: FleetView{Version: 1, Hosts: []HostInfo{{Name: "one", Devices: devices}}}}
	f := &Fleet{Client: fleet}
	var all sync.WaitGroup
	for i := range many {
		name := fmt.Sprint("p", i)
		g := plan.Group{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 5 * time.Millisecond, Machines: 0.25, Rate: 100, Window: 20 * time.Millisecond}
		in := SettleInput{Service: name, Own: []string{name}, Request: &placement.Request{
			Pipeline: pipelines.Pipeline{Name: name, Modules: []pipelines.Module{{Name: "m"}}},
			Plan:     plan.Plan{Pipeline: name, Modules: []plan.Module{{Name: "m", Rate: 100, Groups: []plan.Group{g}}}},
		}}
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment() // one runs one activity at a time
		env.RegisterActivity(f.Settle)
		env.SetTestTimeout(time.Minute)
		all.Go(func() {
			_, err := env.ExecuteActivity(f.Settle, in)
			assert.NoError(t, err, name)
		})
	}
	all.Wait()
	assert.Equal(t, many, fleet.attempts, "nobody was in another's way")
	require.Len(t, fleet.view.Reserved, many)
	used := map[string]float64{}
	for _, slots := range fleet.view.Reserved {
		for _, s := range slots {
			used[s.Device] += s.Share
		}
	}
	for device, share := range used {
		assert.LessOrEqual(t, share, 1+1e-9, device)
	}
}
