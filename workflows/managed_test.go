package workflows

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/activities"
)

// TestFunctionsAreManaged: what a plan calls is created before traffic moves, what is
// not called any more is deleted after, and a change that fails leaves what was there.
func TestFunctionsAreManaged(t *testing.T) {
	w := newWorld(0)
	apply := func(r *rig, rate float64) *reply {
		spec := ranker(rate)
		spec.Provider.Manage = true
		spec.Provider.URL = "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}-{batch}"
		return r.update(UpdateApply, ApplyRequest{Spec: spec})
	}
	names := func(in activities.ManageInput) (all []string) {
		for _, m := range in.Want {
			all = append(all, m.Name)
		}
		return all
	}
	var first, second []string
	functionScript(t, w, Settings{}, func(r *rig) { apply(r, 0.1) }, func(r *rig) {
		require.Len(t, w.managed, 2, "created, then nothing to delete")
		first = names(w.managed[1])
		assert.Equal(t, first, names(w.managed[0]))
		apply(r, 100)
	}, func(r *rig) {
		require.Len(t, w.managed, 4)
		second = names(w.managed[3])
		assert.NotEqual(t, first, second)
		assert.ElementsMatch(t, append(append([]string(nil), first...), second...), names(w.managed[2]), "both while traffic moves")
		w.change(func() { w.installErr = temporal.NewNonRetryableApplicationError("no token", "", nil) })
		apply(r, 0.1)
	}, func(r *rig) {
		assert.Equal(t, second, names(w.managed[5]), "taken back")
		assert.Equal(t, 2, r.status().Serving)
		w.change(func() {
			w.installErr, w.managed = nil, w.managed[:4]
			w.manageErr = temporal.NewNonRetryableApplicationError("over quota", activities.TypeNotReady, nil)
		})
		apply(r, 0.2)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, 2, s.Serving, "what serves goes on")
		require.NotNil(t, s.Failure)
		assert.Equal(t, "over quota", s.Failure.Reason)
		assert.Equal(t, second, names(w.managed[len(w.managed)-1]))
	})
	assert.Equal(t, second, names(w.managed[len(w.managed)-2]))
	assert.Empty(t, w.managed[len(w.managed)-1].Want, "deleted with the service")
}
