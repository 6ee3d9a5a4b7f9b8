package control_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows/control"
)

func TestDevicesAreAsOfTheLastHeartbeats(t *testing.T) {
	c := mocks.NewClient(t)
	view := activities.FleetView{}
	for _, name := range []string{"beating", "older", "silent", "starting"} {
		view.Hosts = append(view.Hosts, activities.HostInfo{Name: name, Devices: []placement.Device{{Host: name, Name: "cpu/0", Hardware: "cpu", Memory: 5}}})
	}
	c.On("QueryWorkflow", mock.Anything, activities.FleetID, "", activities.FleetDevices).Return(answer(t, view), nil)
	said := func(v any) *workflowservice.DescribeWorkflowExecutionResponse {
		var details *commonpb.Payloads
		if v != nil {
			var err error
			details, err = converter.GetDefaultDataConverter().ToPayloads(v)
			require.NoError(t, err)
		}
		return &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{{HeartbeatDetails: details}}}
	}
	beat := activities.HostBeat{Present: "5s", Devices: []devices.Reading{
		{DeviceStatus: executors.DeviceStatus{Host: "beating", Device: "cpu/0", Hardware: "cpu", Batches: 7}},
		{DeviceStatus: executors.DeviceStatus{Host: "beating", Device: "gpu/1"}, GPU: &devices.GPU{UUID: "1", Temperature: devices.Unknown, Processes: []devices.Process{{PID: 3}}}},
	}}
	c.On("DescribeWorkflowExecution", mock.Anything, "host/beating", "").Return(said(beat), nil)
	c.On("DescribeWorkflowExecution", mock.Anything, "host/older", "").Return(said("present for 5s"), nil)
	c.On("DescribeWorkflowExecution", mock.Anything, "host/silent", "").Return(said(nil), nil)
	c.On("DescribeWorkflowExecution", mock.Anything, "host/starting", "").Return(nil, serviceerror.NewNotFound("not yet"))
	got, err := control.New(c, control.Options{}).Devices(t.Context())
	require.NoError(t, err)
	want := beat.Devices
	for _, name := range []string{"older", "silent", "starting"} {
		want = append(want, devices.Reading{DeviceStatus: executors.DeviceStatus{Host: name, Device: "cpu/0", Hardware: "cpu", Capacity: 5}})
	}
	assert.Equal(t, want, got)
}
