package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// crops is a pipeline whose classifier gets so many items of a picture on average, and at most.
func crops(mean float64, most int) pipelines.Pipeline {
	return pipelines.Pipeline{SLO: time.Second, Attainment: 0.99, Modules: []pipelines.Module{{Name: "detect", Fanout: 1}, {Name: "crops", Scatter: true, Fanout: mean, Most: most}}}
}

// split lets so many seconds pass in which pictures have so many items in turn.
func split(f *Fanouts, p *pipelines.Pipeline, from, seconds int, attainment float64, items ...int) (m Measures) {
	for i := range seconds {
		to := start.Add(time.Duration(from+i+1) * time.Second)
		one := ModuleMeasures{Name: "crops"}
		for _, k := range items {
			one.Items = append(one.Items, ItemCount{Items: k, Times: 10})
		}
		m = Measures{From: to.Add(-time.Second), To: to, Attainment: attainment, Modules: []ModuleMeasures{{Name: "detect"}, one}}
		f.Observe(m, p)
	}
	return m
}

func TestMoreItemsThanPlannedForAreTold(t *testing.T) {
	p, f := crops(4, 8), Fanouts{}
	split(&f, &p, 0, 10, 1, 2, 6)
	require.Len(t, f.Modules, 1)
	assert.Empty(t, f.Modules[0].Describe())
	split(&f, &p, 10, 1, 1, 2, 12)
	assert.Equal(t, "crops: 12 items at most in a request, planned for 8", f.Modules[0].Describe())
}

func TestAFanoutThatDriftsIsPlannedFor(t *testing.T) {
	p, f := crops(4.2, 0), Fanouts{}
	f.Reset(start)
	_, how := f.Drifted(split(&f, &p, 0, 60, 1, 3, 5), p)
	assert.Empty(t, how, "as declared, if not drawn as assumed")
	m := split(&f, &p, 60, 40, 0.7, 6, 10)
	assert.Equal(t, "crops: 7.055 items in a request on average, planned for 4.2", f.Modules[0].Describe())
	next, how := f.Drifted(m, p)
	assert.Equal(t, f.Modules[0].Describe(), how)
	assert.InDelta(t, 7.1, next.Module("crops").Fanout, 1e-9)
	assert.InDelta(t, 7.05, next.Module("crops").Items.Mean(), 0.01, "simulated as it was seen")
	assert.Zero(t, next.Module("crops").MostItems(), "nothing is proven of it")
	assert.Equal(t, 4.2, p.Module("crops").Fanout)

	calm := Fanouts{}
	m = split(&calm, &p, 0, 5, 1, 6, 10)
	_, how = calm.Drifted(m, p)
	assert.Empty(t, how, "nothing is lost of it: not at once")
	m = split(&calm, &p, 5, 60, 1, 6, 10)
	_, how = calm.Drifted(m, p)
	assert.NotEmpty(t, how)
}

func TestFewerItemsArePlannedForLater(t *testing.T) {
	p, f := crops(4, 8), Fanouts{}
	f.Reset(start)
	_, how := f.Drifted(split(&f, &p, 0, 100, 1, 0, 2), p)
	assert.Empty(t, how)
	next, how := f.Drifted(split(&f, &p, 100, 100, 1, 0, 2), p)
	assert.Contains(t, how, "planned for 4")
	assert.Equal(t, 1.0, next.Module("crops").Fanout)
	assert.Equal(t, 8, next.Module("crops").MostItems(), "what is declared is proven for")
}

// What is declared to be always so many stays proven.
func TestMeasuredItemsAreSimulated(t *testing.T) {
	for _, row := range []struct {
		mean float64
		most int
		some bool
	}{{1.8, 0, true}, {4, 8, true}, {4, 0, false}} {
		p, f := crops(row.mean, row.most), Fanouts{}
		split(&f, &p, 0, 10, 1, 1, 3)
		next := f.Into(p)
		assert.Equal(t, row.some, len(next.Module("crops").Items) > 0, row)
		assert.Empty(t, p.Module("crops").Items)
	}
}
