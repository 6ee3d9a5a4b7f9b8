package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/wire"
)

func TestFailuresAreReportedForAMinute(t *testing.T) {
	var f failures
	m := moduleKey{"p", "m"}
	told := func(now time.Duration) string {
		all := []autoscale.ModuleMeasures{{Name: "other"}, {Name: "m"}}
		f.report(now, "p", all)
		assert.Empty(t, all[0].Failure)
		return all[1].Failure
	}
	f.note(time.Second, m, wire.Errorf(wire.CodeInternal, "m", "the matrix is singular"))
	f.note(2*time.Second, m, wire.Errorf(wire.CodeInvalid, "m", "x must not be 8"))
	f.note(2*time.Second, m, nil)
	assert.Equal(t, "the matrix is singular", told(3*time.Second), "what callers get wrong is no failure")
	assert.Equal(t, "the matrix is singular", f.since(time.Second, m))
	assert.Empty(t, f.since(time.Second+1, m), "that was before")
	f.note(4*time.Second, m, wire.Errorf(wire.CodeUnavailable, "m", "it ended with exit status 9"))
	assert.Equal(t, "it ended with exit status 9", told(time.Minute))
	assert.Empty(t, told(2*time.Minute))
	f.note(3*time.Minute, moduleKey{"q", "m"}, wire.Errorf(wire.CodeInternal, "m", "no"))
	assert.Len(t, f.last, 1, "what is old goes")
}
