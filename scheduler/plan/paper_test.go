package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// One test per claim of the Harpagon paper, in its order. Table I prints
// throughputs; the durations below are batch over throughput. Prices are 1.

const second = time.Second

func profile(points ...pipelines.Point) pipelines.Profile {
	for i := range points {
		points[i].Hardware, points[i].Concurrency = "gpu", 1
	}
	return pipelines.Profile{Points: points}
}

func point(batch int, ms float64) pipelines.Point {
	return pipelines.Point{Batch: batch, Duration: time.Duration(ms * 1e6)}
}

// Table I.
func tableM1() pipelines.Profile { return profile(point(2, 160), point(4, 200), point(8, 320)) }
func tableM3() pipelines.Profile { return profile(point(2, 100), point(8, 250), point(32, 800)) }

func oneModule(p pipelines.Profile, rate float64, slo time.Duration) Problem {
	return Problem{
		Pipeline: pipelines.Pipeline{
			Name: "p", SLO: slo, Rate: rate,
			Modules: []pipelines.Module{{Name: "m", Fanout: 1, Profile: p}},
		},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
	}
}

// row is a group as Table II prints it: rate (machines x batch).
type row struct {
	rate, machines float64
	batch          int
}

func rows(m Module) []row {
	var list []row
	for _, g := range m.Groups {
		list = append(list, row{g.Rate + g.DummyRate, g.Machines, g.Batch})
	}
	return list
}

func TestTableII(t *testing.T) {
	tests := []struct {
		name    string
		without []string
		cost    float64
		rows    []row
	}{
		{"S1", []string{"tc", "multi", "dummy"}, 6.3, []row{{192, 6, 8}, {6, 0.3, 2}}},
		{"S2", []string{"multi", "dummy"}, 5.9, []row{{160, 4, 32}, {20, 1, 2}, {18, 0.9, 2}}},
		{"S3", []string{"dummy"}, 5.3, []row{{160, 4, 32}, {32, 1, 8}, {6, 0.3, 2}}},
		{"S4", nil, 5.0, []row{{200, 5, 32}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Solve(oneModule(tableM3(), 198, second), Options{Without: tt.without})
			require.Equal(t, Feasible, p.Status, p.Reason)
			assert.InDelta(t, tt.cost, p.Cost, 1e-9)
			got := rows(p.Modules[0])
			require.Len(t, got, len(tt.rows))
			for i := range tt.rows {
				assert.InDelta(t, tt.rows[i].rate, got[i].rate, 1e-6)
				assert.InDelta(t, tt.rows[i].machines, got[i].machines, 1e-6)
				assert.Equal(t, tt.rows[i].batch, got[i].batch)
			}
		})
	}
}
