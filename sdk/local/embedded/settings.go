//go:build !noserver

package embedded

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// settings are those of the server that differ from its own.
func settings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// One or two processes need no partitions, and are quicker without.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// Hosts join by an update of one workflow, at times all at once.
		dynamicconfig.WorkflowExecutionMaxInFlightUpdates.Key(): maxUpdates,

		dynamicconfig.DefaultWorkflowTaskTimeout.Key(): taskTimeout,

		dynamicconfig.TransferProcessorMaxPollRPS.Key(): queueReads,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    queueReads,

		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): cachedWorkflows,
		dynamicconfig.HistoryCacheTTL.Key():              cachedFor,
		dynamicconfig.HistoryCacheBackgroundEvict.Key(): dynamicconfig.CacheBackgroundEvictSettings{
			Enabled: true, LoopInterval: cachedFor / 4, MaxEntryPerCall: 100,
		},
	}
}

// maxUpdates is how many updates of one workflow may wait at a time.
const maxUpdates = 1000

// taskTimeout is how long a workflow waits for a worker that was killed with its task: a
// service does nothing until then. Tasks only decide and take milliseconds; the server
// gives one that was late three times longer.
const taskTimeout = 3 * time.Second

// queueReads is how often a second a shard may look for tasks that have been written and
// are to be handed to workers. Each step of a workflow waits for that: with the server's own
// limit, 20, for up to 50 ms, however many services share the shard.
const queueReads = 1000

// How many workflows' states the server keeps in memory, of 15 to 20 kB each, and for how
// long after one was read. By its own limits, 128,000 and until somebody asks for one that is
// an hour old, each change of a service leaves two of them behind: some 400 MB after 10,000
// changes. A workflow that goes on is read from the database once in cachedFor, or more often
// where more than cachedWorkflows do.
const (
	cachedWorkflows = 4096
	cachedFor       = time.Minute
)
