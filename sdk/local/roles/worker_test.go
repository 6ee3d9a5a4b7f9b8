package roles

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// An executor attaches to every gateway and dispatcher, and again where a connection breaks.
func TestAnExecutorIsReportedReadyOnce(t *testing.T) {
	var said []string
	reports := progressReports{progress: func(s string) { said = append(said, s) }}
	for _, name := range []string{"a", "b"} {
		o := reports.observed(executors.Task{Slot: placement.Slot{Executor: name, Device: "cpu/0"}}, executors.Observer{})
		for range 4 {
			o.Attached(executors.Status{})
		}
	}
	assert.Equal(t, []string{"executor a is ready on cpu/0", "executor b is ready on cpu/0"}, said)
}
