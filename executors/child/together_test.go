package child

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/wire"
)

// Models that are loaded together share a child, are lost together, and close by
// themselves.
func TestModelsTogetherShareAChild(t *testing.T) {
	noLeaks(t, func() {
		e := New("trial", quick(new(log)))
		models := []executors.Model{model(nil), model(nil), model(nil)}
		models[1].Module.Name, models[2].Module.Name = "kind", "colour"
		all, err := executors.LoadTogether(t.Context(), e, models)
		require.NoError(t, err)
		first, second, third := all[0].(*instance), all[1].(*instance), all[2].(*instance)
		child := pid(first)
		assert.Equal(t, child, pid(second))
		for _, in := range all {
			got, err := in.Run(t.Context(), batch(5))
			require.NoError(t, err)
			assert.Equal(t, batch(5), got)
		}

		// The next batch goes to the child while it computes one for another model.
		answer, err := second.Stage(batch(1))
		require.NoError(t, err)
		ahead, err := third.Stage(batch(2))
		require.NoError(t, err)
		for i, one := range []func() ([][]wire.Tensor, error){func() ([][]wire.Tensor, error) { return answer(t.Context()) }, func() ([][]wire.Tensor, error) { return ahead(t.Context()) }} {
			got, err := one()
			require.NoError(t, err)
			assert.Equal(t, batch(float32(i+1)), got)
		}

		_, err = second.Run(t.Context(), batch(askPanic))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		var failed *wire.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "kind", failed.Stage)
		_, err = third.Run(t.Context(), batch(7))
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "colour", failed.Stage)
		for _, in := range all {
			require.NoError(t, in.Close())
		}

		all, err = executors.LoadTogether(t.Context(), e, models)
		require.NoError(t, err)
		first, second, third = all[0].(*instance), all[1].(*instance), all[2].(*instance)
		child = pid(third)
		require.NoError(t, first.Close())
		require.NoError(t, first.Close())
		_, err = first.Run(t.Context(), batch(1))
		assert.ErrorContains(t, err, "closed")
		_, err = second.Run(t.Context(), batch(1))
		require.NoError(t, err)
		require.NoError(t, second.Close())
		require.NoError(t, third.Close())
		assert.True(t, ended(child))
	})
}

func TestTheModelThatCannotBeLoadedIsNamed(t *testing.T) {
	noLeaks(t, func() {
		_, err := executors.LoadTogether(t.Context(), New("trial", quick(new(log))), []executors.Model{model(nil), model(map[string]any{"load": "error"})})
		var of *executors.TogetherError
		require.ErrorAs(t, err, &of)
		assert.Equal(t, 1, of.At)
		assert.ErrorContains(t, err, "this model is damaged")
	})
}
