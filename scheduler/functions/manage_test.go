package functions

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

func drawManaged(t *rapid.T, label string) []Managed {
	all := map[string]Managed{}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, label) {
		all[name] = Managed{
			Name: name, FunctionSize: pipelines.FunctionSize{Function: "f", Platform: "cpu", VCPU: 1, Batch: rapid.IntRange(1, 3).Draw(t, "batch")},
			Concurrency: 10, Warm: rapid.IntRange(1, 3).Draw(t, "warm"),
		}
	}
	return sorted(all)
}

// carry applies the result of Manage.
func carry(has []Managed, c Managing) []Managed {
	all := map[string]Managed{}
	for _, m := range has {
		all[m.Name] = m
	}
	for _, m := range append(append([]Managed(nil), c.Create...), c.Resize...) {
		all[m.Name] = m
	}
	for _, m := range c.Delete {
		delete(all, m.Name)
	}
	return sorted(all)
}

// TestManage: done once it leads to what is wanted, done twice it does nothing, and
// while traffic moves nothing that either plan calls is missing or smaller.
func TestManage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawManaged(t, "from"), drawManaged(t, "to")
		both := Both(from, to)
		moving := carry(from, Manage(both, from))
		assert.Equal(t, both, moving)
		assert.Empty(t, Manage(both, from).Delete)
		for _, m := range append(append([]Managed(nil), from...), to...) {
			ok := false
			for _, is := range moving {
				ok = ok || is.Name == m.Name && is.Batch >= m.Batch && is.Warm >= m.Warm
			}
			assert.True(t, ok, m.Name)
		}
		after := carry(moving, Manage(to, moving))
		assert.Equal(t, to, after)
		assert.Equal(t, "nothing to do", Manage(to, after).Describe())
		assert.Equal(t, from, carry(moving, Manage(from, moving)), "taken back")
	})
}
