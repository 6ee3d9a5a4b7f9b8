package simulate

import (
	"encoding/json"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// traceEvent is one event of the Trace Event Format of Chrome: "X" is a span,
// "M" names a process or thread. Times are in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	TS    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	Cat   string         `json:"cat,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// TraceEvents writes batches as a JSON file that chrome://tracing and
// ui.perfetto.dev open: a track for each device, a span for each batch with its
// size and how long the oldest of it had waited.
func TraceEvents(r Result, batches []Batch) []byte {
	events := make([]traceEvent, 0, len(batches)+len(r.Devices)+1)
	events = append(events, traceEvent{Name: "process_name", Phase: "M", Args: map[string]any{"name": "harpagon simulate"}})
	for i, d := range r.Devices {
		events = append(events, traceEvent{Name: "thread_name", Phase: "M", TID: i, Args: map[string]any{"name": d.Device}})
	}
	for _, b := range batches {
		events = append(events, traceEvent{
			Name: b.Module, Phase: "X", TID: b.Device, Cat: b.Pipeline, TS: micros(b.Begin), Dur: micros(b.End - b.Begin),
			Args: map[string]any{"batch": b.Size, "pipeline": b.Pipeline, "waited_ms": quantity.MS(b.Begin - b.Oldest)},
		})
	}
	text, err := json.Marshal(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
	if err != nil { // names and finite numbers can be written
		return nil
	}
	return text
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
