package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slower applies a looser objective.
func slower(by time.Duration) func(*rig) {
	return func(r *rig) {
		next := traffic(20)
		next.Pipeline.SLO += by
		r.update(UpdateApply, ApplyRequest{Spec: next})
	}
}

func generations(s Status) (all []int) {
	for _, d := range s.Declared {
		all = append(all, d.Generation)
	}
	return all
}

// TestRollback goes back to what served before, and from there forth again.
func TestRollback(t *testing.T) {
	w := newWorld(4)
	var back, forth, nowhere, here *reply
	script(t, w, Settings{}, apply(20), func(r *rig) {
		nowhere = r.update(UpdateRollback, RollbackRequest{})
	}, func(r *rig) {
		require.ErrorContains(t, nowhere.rejected, "has served no other declaration")
	}, slower(time.Second), func(r *rig) {
		assert.Equal(t, []int{1, 2}, generations(r.status()))
		back = r.update(UpdateRollback, RollbackRequest{Expect: 2, By: "ada@desk"})
	}, func(r *rig) {
		require.NoError(t, back.rejected)
		s := r.status()
		assert.Equal(t, 3, s.Serving)
		assert.Equal(t, "rolled back to generation 1", s.Cause)
		assert.Equal(t, "ada@desk", s.Decisions[2].By)
		assert.Empty(t, s.Decisions[1].By, "the caller gave no name")
		assert.Equal(t, traffic(20).SLO(), w.installed[2].Pipeline.SLO)
		assert.Equal(t, []int{1, 2, 3}, generations(s))
		assert.True(t, s.Declared[2].Current)
		here = r.update(UpdateRollback, RollbackRequest{To: 3})
		forth = r.update(UpdateRollback, RollbackRequest{Reason: "it was right after all"})
	}, func(r *rig) {
		require.ErrorContains(t, here.rejected, "those before it that are kept: 2, 1")
		require.NoError(t, forth.rejected)
		s := r.status()
		assert.Equal(t, "it was right after all", s.Cause)
		assert.Equal(t, traffic(20).SLO()+time.Second, w.installed[3].Pipeline.SLO)
	})
}

// TestRollbackKeepsFew forgets the oldest declarations, and those that never served.
func TestRollbackKeepsFew(t *testing.T) {
	w := newWorld(4)
	steps := []func(*rig){apply(20), func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: traffic(1e6)}) // more than there are devices for
	}}
	for i := range 7 {
		steps = append(steps, slower(time.Duration(i+1)*time.Second))
	}
	var gone *reply
	steps = append(steps, func(r *rig) {
		assert.Equal(t, []int{4, 5, 6, 7, 8, 9}, generations(r.status()))
		gone = r.update(UpdateRollback, RollbackRequest{To: 2})
	}, func(r *rig) {
		require.ErrorContains(t, gone.rejected, "keeps no declaration of generation 2; it keeps those of 8, 7, 6, 5, 4")
	})
	script(t, w, Settings{}, steps...)
}

// TestRollbackOfAFailedChange goes back to what serves still.
func TestRollbackOfAFailedChange(t *testing.T) {
	w := newWorld(4)
	var back *reply
	script(t, w, Settings{}, apply(20), apply(1e6), func(r *rig) {
		require.NotNil(t, r.status().Failure)
		back = r.update(UpdateRollback, RollbackRequest{Expect: 2})
	}, func(r *rig) {
		require.NoError(t, back.rejected)
		s := r.status()
		assert.Equal(t, 3, s.Serving)
		assert.Nil(t, s.Failure)
		assert.Nil(t, s.Requested)
		assert.InDelta(t, 20, s.Rate, 1e-9)
	})
}
