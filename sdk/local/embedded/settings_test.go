//go:build !noserver

package embedded

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
)

// The server silently takes its default where a value of another type is set.
func TestMemoryOfWorkflowsIsBounded(t *testing.T) {
	all := dynamicconfig.NewCollection(settings(), log.NewNoopLogger())
	assert.Equal(t, cachedWorkflows, dynamicconfig.HistoryCacheHostLevelMaxSize.Get(all)())
	assert.False(t, dynamicconfig.HistoryCacheSizeBasedLimit.Get(all)(), "the bound is on their number")
	assert.Zero(t, dynamicconfig.QueueReaderStuckCriticalAttempts.Get(all)(), "ranges of timers that are set apart are never forgotten")
}
