package sdktest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
)

func TestFake(t *testing.T) {
	ctx := context.Background()
	c := sdk.NewClient(sdktest.Fake{"double": func(_ context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
		x, err := in["x"].Int64s()
		if err != nil {
			return nil, &sdk.Error{Code: "invalid", Reason: err.Error()}
		}
		return sdktest.Outputs{"y": sdk.Int64([]int64{2 * x[0]}), "z": sdk.Strings([]string{"z"})}, nil
	}})
	out, err := c.Infer(ctx, "double", sdk.Inputs{"x": sdk.Int64([]int64{21})})
	require.NoError(t, err)
	require.Equal(t, []string{"y", "z"}, out.Names())
	y, err := out.Int64s("y")
	require.NoError(t, err)
	require.Equal(t, []int64{42}, y)

	out, err = c.Infer(ctx, "double", sdk.Inputs{"x": sdk.Int64([]int64{1})}, sdk.WithOutputs("z"))
	require.NoError(t, err)
	require.Equal(t, []string{"z"}, out.Names())

	_, err = c.Infer(ctx, "double", sdk.Inputs{"x": sdk.Strings(nil)})
	require.ErrorIs(t, err, sdk.ErrInvalid)
	_, err = c.Infer(ctx, "triple", nil)
	require.ErrorIs(t, err, sdk.ErrNotFound)
	_, err = c.Metadata(ctx, "triple")
	require.ErrorIs(t, err, sdk.ErrNotFound)
	m, err := c.Metadata(ctx, "double")
	require.NoError(t, err)
	require.True(t, m.Ready)
	names, err := c.Pipelines(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"double"}, names)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Infer(gone, "double", nil)
	require.ErrorIs(t, err, sdk.ErrCanceled)
}

// A fake may return the values for errors.Is as they are.
func TestAFakeReturnsAnErrorByItsName(t *testing.T) {
	for code, named := range map[string]error{
		"deadline": sdk.ErrDeadline, "overloaded": sdk.ErrOverloaded, "infeasible": sdk.ErrInfeasible, "unavailable": sdk.ErrUnavailable,
		"invalid": sdk.ErrInvalid, "canceled": sdk.ErrCanceled, "not_found": sdk.ErrNotFound, "internal": sdk.ErrInternal,
	} {
		c := sdk.NewClient(sdktest.Fake{"p": func(context.Context, sdk.Inputs) (sdktest.Outputs, error) { return nil, named }})
		_, err := c.Infer(context.Background(), "p", nil)
		require.ErrorIs(t, err, named)
		var e *sdk.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, code, string(e.Code))
	}
}
