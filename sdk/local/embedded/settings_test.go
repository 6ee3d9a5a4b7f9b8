//go:build !noserver

package embedded

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
)

// The server takes its own value, and says nothing, where one of another type is set. What
// it keeps in memory of workflows that have ended is bounded, and goes without being asked
// for.
func TestMemoryOfWorkflowsIsBounded(t *testing.T) {
	all := dynamicconfig.NewCollection(settings(), log.NewNoopLogger())
	assert.Equal(t, cachedWorkflows, dynamicconfig.HistoryCacheHostLevelMaxSize.Get(all)())
	assert.False(t, dynamicconfig.HistoryCacheSizeBasedLimit.Get(all)(), "the bound is on their number")
	assert.Equal(t, cachedFor, dynamicconfig.HistoryCacheTTL.Get(all)())
	evict := dynamicconfig.HistoryCacheBackgroundEvict.Get(all)()
	assert.True(t, evict.Enabled)
	assert.Equal(t, cachedFor/4, evict.LoopInterval)
	assert.Positive(t, evict.MaxEntryPerCall)
}
