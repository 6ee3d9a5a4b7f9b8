package gateway

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// newRecorder records a station's steps, where that is wanted.
func (g *Gateway) newRecorder() *recording.Recorder {
	if g.options.Record < 0 {
		return nil
	}
	return &recording.Recorder{Limit: g.options.Record}
}

// Recording is what the dispatchers of all modules that are served now have lately been told and
// decided, for harpagon replay.
func (g *Gateway) Recording() recording.Recording {
	r := recording.Recording{Head: recording.Head{Program: "harpagon gateway", Written: time.Now(), Epoch: g.epoch}}
	g.mu.Lock()
	var all []*station
	for _, p := range *g.pipelines.Load() {
		all = slices.AppendSeq(all, maps.Values(p.stations))
	}
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b *station) int {
		return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), cmp.Compare(a.name, b.name))
	})
	for _, s := range all {
		s.mu.Lock()
		parts := s.recorder.Parts()
		s.mu.Unlock()
		r.Stations = append(r.Stations, recording.Station{Name: s.pipeline + "/" + s.name, Parts: parts})
	}
	return r
}
