package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// Items of requests are counted by module without a piece of memory for each.
func TestItemsOfRequestsAreCounted(t *testing.T) {
	var s ServiceStats
	s.Init(10*time.Second, 0)
	for i := range 300 {
		now := time.Duration(i) * 100 * time.Millisecond
		s.Split(now, "plates", i%3)
		s.Split(now, "faces", 1000)
	}
	got := s.Splits(30 * time.Second)
	assert.Equal(t, []autoscale.ItemCount{{Items: 0, Times: 33}, {Items: 1, Times: 33}, {Items: 2, Times: 34}}, got["plates"])
	assert.Equal(t, []autoscale.ItemCount{{Items: 1000, Times: 100}}, got["faces"])
	assert.Equal(t, 1024, bucketOfItems(1021))
	now := 30 * time.Second
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Split(now, "plates", 2) }))
}
