package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/activities"
)

func TestACrowdOfExecutorsSaysLess(t *testing.T) {
	assert.Equal(t, activities.DefaultHeartbeatTimeout, activities.HeartbeatTimeout(2))
	assert.Equal(t, activities.DefaultHeartbeatTimeout, activities.HeartbeatTimeout(200))
	assert.Equal(t, 50*time.Second, activities.HeartbeatTimeout(1000))
}
