package roles

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnyTwoPorts: where any port does, the one after it may be in use, here by others of its kind.
func TestAnyTwoPorts(t *testing.T) {
	var first string
	for i := range 400 {
		gateways, executors, err := twoPorts(DispatcherOptions{Addr: "127.0.0.1:0"})
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = gateways.Close(), executors.Close() })
		if i == 0 {
			first = gateways.Addr().String()
		}
	}
	_, _, err := twoPorts(DispatcherOptions{Addr: first})
	assert.ErrorContains(t, err, "in use")
}
