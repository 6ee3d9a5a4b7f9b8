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

		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():     cachedWorkflows,
		dynamicconfig.QueueReaderStuckCriticalAttempts.Key(): timersOfOneSecond,
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

// cachedWorkflows is how many entries the server keeps in memory of the workflows used
// last: mostly two of each, its state, of 12 to 20 kB, and which run is the current one. By
// its own limit, 128,000, each change of a service leaves two workflows behind that have
// ended: some 400 MB after 10,000 changes. Running workflows are used by every heartbeat;
// where there are more of them, their states are read from the database again. A limit in
// time would not do: it counts from when a state was read, so that updates that wait would
// be given up and begun again.
const cachedWorkflows = 2048

// timersOfOneSecond is after how many reads of timers that are due in the same second the
// server sets these apart, so that a namespace with very many of them does not hold up the
// others; 0 for never. There is but one namespace here, three reads of one second are common
// while services change, and some of what is set apart stays in memory although it is empty:
// 22 MB after 10,000 changes.
const timersOfOneSecond = 0
