package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReconcileConservesSlots(t *testing.T) {
	draw := func(t *rapid.T, label string) []Slot {
		var slots []Slot
		for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 8, rapid.ID[int]).Draw(t, label) {
			slots = append(slots, Slot{Executor: fmt.Sprintf("e%d", id), Share: rapid.Float64Range(0, 1).Draw(t, "share")})
		}
		return slots
	}
	rapid.Check(t, func(t *rapid.T) {
		desired, actual := draw(t, "desired"), draw(t, "actual")
		c := Reconcile(desired, actual)
		assert.ElementsMatch(t, desired, append(append([]Slot(nil), c.Keep...), c.Start...), "keep and start are what is desired")
		assert.ElementsMatch(t, names(actual), append(names(c.Keep), names(c.Stop)...), "keep and stop are what runs")
		assert.Equal(t, c.Empty(), len(c.Start)+len(c.Stop) == 0)
	})
}

func names(slots []Slot) []string {
	list := []string{}
	for _, s := range slots {
		list = append(list, s.Executor)
	}
	return list
}

func TestReconcileOfNothing(t *testing.T) {
	assert.Equal(t, "nothing to do\n", Reconcile(nil, nil).Describe())
}

func TestExecutorNamesTellWhatCannotChange(t *testing.T) {
	base := Slot{Pipeline: "p", Module: "m", Host: "h", Device: "cpu/0", Batch: 4, Engine: "e", Model: "x"}
	same := base
	same.Group, same.Share, same.Window = 2, 0.5, ms
	assert.Equal(t, base.content(), same.content())
	for _, change := range []func(*Slot){
		func(s *Slot) { s.Pipeline = "q" }, func(s *Slot) { s.Module = "n" }, func(s *Slot) { s.Host = "i" },
		func(s *Slot) { s.Device = "cpu/1" }, func(s *Slot) { s.Batch = 8 }, func(s *Slot) { s.Engine = "f" }, func(s *Slot) { s.Model = "y" },
	} {
		other := base
		change(&other)
		assert.NotEqual(t, base.content(), other.content())
	}
}

// equalGroups has two groups of one configuration for one device.
func equalGroups() Request {
	r := traffic()
	r.Devices = cores(1)
	r.Plan.Modules = r.Plan.Modules[:1]
	r.Plan.Modules[0].Groups = append(r.Plan.Modules[0].Groups, r.Plan.Modules[0].Groups[0])
	r.MaxShare = 1
	return r
}

// Two groups of one configuration may meet on a device; their executors have
// different names.
func TestEqualGroupsOnOneDevice(t *testing.T) {
	r := equalGroups()
	p, err := Place(r)
	require.NoError(t, err)
	require.Len(t, p.Slots, 2)
	assert.Equal(t, p.Slots[0].Executor+".2", p.Slots[1].Executor)
	assert.Contains(t, p.Describe(), "device host/cpu/0: 100 % used")
}

// What was started for a change that has failed may not have gone yet when the next one
// wants the same: it must not be taken for that.
func TestEveryStartHasANameOfItsOwn(t *testing.T) {
	r := equalGroups()
	place := func(start int, actual ...Slot) []Slot {
		t.Helper()
		r.Start, r.Actual = start, actual
		p, err := Place(r)
		require.NoError(t, err)
		require.Len(t, p.Slots, 2)
		require.NotEqual(t, p.Slots[0].Executor, p.Slots[1].Executor)
		return p.Slots
	}
	failed := place(3)
	first := place(4)
	assert.Len(t, Reconcile(first, failed).Start, 2)
	assert.Empty(t, Reconcile(place(7, first...), first).Start, "what runs keeps its name")

	one := place(8, first[1]) // the other was lost
	c := Reconcile(one, first)
	assert.Len(t, c.Keep, 1)
	assert.Len(t, c.Start, 1)
	assert.Equal(t, first[1].Executor, one[0].Executor)
	assert.Equal(t, first[1].Group, 1, "it serves another group from now on")
	old := place(0, Slot{}) // by a version without numbers in names
	assert.Empty(t, Reconcile(place(9, old...), old).Start)
}
