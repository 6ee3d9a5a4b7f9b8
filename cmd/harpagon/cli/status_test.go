package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/workflows/control"
)

// TestStatusCountsMistakesOfCallersApart: requests that were wrong in themselves
// stand in a column of their own and take nothing off what was in time.
func TestStatusCountsMistakesOfCallersApart(t *testing.T) {
	var all []control.Status
	for _, name := range []string{"traffic", "a-pipeline-with-quite-a-long-name", "idle"} {
		s := control.Status{}
		s.Name, s.Kind, s.Phase, s.Generation, s.Policy, s.CostModel, s.Rate, s.Cost = name, pipelines.KindPipeline, "serving", 12, "exact", "shared", 1234.5, 0.0425
		if name != "idle" {
			s.Measures = &autoscale.Measures{Offered: 987.6, Attainment: 1, Invalid: 17}
		}
		if name == "traffic" {
			s.Measures.Streams = &admission.StreamShares{Kinds: []admission.StreamShares{{Kind: "fast", Most: 6}, {Kind: "slow", Open: 2, Most: 3, Worst: 0.5, WorstName: "a", Median: 1}}}
		}
		all = append(all, s)
	}
	var text bytes.Buffer
	require.NoError(t, writeServices(&text, all))
	lines := strings.Split(text.String(), "\n")
	assert.True(t, strings.HasSuffix(lines[0], "invalid"), lines[0])
	assert.Contains(t, lines[1], "100 %")
	assert.True(t, strings.HasSuffix(lines[1], "17"), lines[1])
	assert.True(t, strings.HasSuffix(lines[3], "-"), lines[3])
	assert.Contains(t, text.String(), "\ntraffic: fast streams: none of 6 open\n")
	assert.Contains(t, text.String(), "\ntraffic: slow streams: 2 of 3 open; of the worst, \"a\", 50 % in time, of the median 100 %\n")
	for line := range strings.Lines(fitted(text.String(), lineWidth)) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), lineWidth, line)
	}
}
