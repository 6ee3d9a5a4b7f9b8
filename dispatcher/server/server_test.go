package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/dispatcher"
)

// TestEpochsNeverGoBack holds that of two gateways which lose an owner at the same time
// neither makes the server own a service by less than before.
func TestEpochsNeverGoBack(t *testing.T) {
	s := New(dispatcher.New(dispatcher.Options{Now: func() time.Duration { return 1 }}), Options{})
	s.Own("p", 7)
	s.Own("p", 6)
	assert.Equal(t, map[string]uint64{"p": 7}, s.Owns())
	highest := uint64(0)
	for range 100 {
		got := s.OwnAfter("p", 7)
		assert.GreaterOrEqual(t, got, highest)
		assert.Equal(t, got, s.Owns()["p"])
		highest = got
	}
	s.Disown("p")
	s.Own("p", 3)
	assert.Equal(t, map[string]uint64{"p": 3}, s.Owns(), "whoever grants it again decides")
}
