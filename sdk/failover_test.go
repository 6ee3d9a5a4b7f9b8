package sdk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAnswerCountsWhoeverIsSilent: a request that was answered is not sent to another
// gateway, though this one was just found to be silent.
func TestAnAnswerCountsWhoeverIsSilent(t *testing.T) {
	p := newPeer(nil)
	require.NoError(t, p.ask(t.Context(), func(context.Context, Connection) error {
		p.fall()
		return nil
	}))
	require.True(t, p.up(), "it lives")
	silent := p.ask(t.Context(), func(ctx context.Context, _ Connection) error {
		p.fall()
		return ctx.Err()
	})
	require.ErrorIs(t, silent, errUnreachable)
}
