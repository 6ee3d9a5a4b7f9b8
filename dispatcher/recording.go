package dispatcher

import (
	"cmp"
	"maps"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// newRecorder records a station's steps, where that is wanted.
func (d *Dispatcher) newRecorder() *recording.Recorder {
	if d.options.Record < 0 {
		return nil
	}
	return &recording.Recorder{Limit: d.options.Record}
}

// Recording is what the stations of all modules that are served now have lately been
// told and decided.
func (d *Dispatcher) Recording() []recording.Station {
	d.mu.Lock()
	var all []*station
	for _, v := range d.services {
		all = slices.AppendSeq(all, maps.Values(v.stations))
	}
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b *station) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.module, b.module))
	})
	recorded := make([]recording.Station, len(all))
	for i, s := range all {
		s.mu.Lock()
		parts := s.recorder.Parts()
		s.mu.Unlock()
		recorded[i] = recording.Station{Name: s.service + "/" + s.module, Parts: parts}
	}
	return recorded
}
