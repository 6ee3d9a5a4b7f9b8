package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// sorting is a pipeline of one module with a variant that is four times as fast, on two
// devices that are fixed.
func sorting(rate float64) scheduler.Spec {
	spec := traffic(rate)
	p := spec.Pipeline
	p.Modules = p.Modules[:1]
	m := &p.Modules[0]
	profile := func(d time.Duration) pipelines.Profile {
		return pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: d}}}
	}
	m.Accuracy, m.Profile, m.ProfileFile = 0.9, profile(20*time.Millisecond), "own.csv"
	m.Variants = []pipelines.Variant{{Name: "small", Accuracy: 0.8, ProfileFile: "small.csv", Profile: profile(5 * time.Millisecond)}}
	p.Outputs = []pipelines.Output{{Name: "label", From: pipelines.Ref{Module: "detect", Port: "out"}}}
	p.Plan.CostModel, p.Accuracy = "whole", 0.75
	spec.Hardware[0].Count = 2
	return spec
}

// offered lets the gateway report for most of a minute the rate of requests, all of which
// are answered.
func offered(rate float64) func(*rig) {
	return func(r *rig) {
		now := r.Now()
		for at := 5 * time.Second; at < 55*time.Second; at += 5 * time.Second {
			r.at(at, func() {
				span := 10 * time.Second
				r.SignalWorkflow(SignalMeasures, autoscale.Measures{
					Pipeline: "traffic", Generation: r.status().Serving, From: now.Add(at - span), To: now.Add(at), Offered: rate,
					Arrived: int64(10 * rate), Completed: int64(10 * rate),
				})
			})
		}
	}
}

func TestAPipelineDegradesAndComesBackByItself(t *testing.T) {
	w := newWorld(2)
	variantOf := func(r *rig) string { return r.status().Plan.Pipeline.Variants[0].Variant }
	script(t, w, Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: sorting(60)})
	}, func(r *rig) {
		assert.Equal(t, "own", variantOf(r))
		offered(60)(r)
	}, func(r *rig) {
		assert.Equal(t, 1, r.status().Serving, "as planned")
		offered(180)(r)
		r.at(20*time.Second, func() {
			assert.Equal(t, "small", variantOf(r), "within twenty seconds")
		})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, "small", variantOf(r))
		assert.Contains(t, s.Cause, "the load changed: rate 1")
		assert.Contains(t, s.Describe(), "accuracy 0.8: 100 % of detect by small (0.8)")
		assert.Contains(t, s.Describe(), "with detect=own")
		assert.Contains(t, s.Variants(), "accuracy 0.8: ")
		assert.Contains(t, s.Describe(), "with detect=small")
		d := w.installed[len(w.installed)-1]
		assert.Equal(t, "small", d.Pipeline.Module("detect").Variant)
		assert.Equal(t, 5*time.Millisecond, d.Pipeline.Module("detect").Profile.Points[0].Duration)
		offered(2000)(r)
	}, func(r *rig) {
		s := r.status()
		assert.Nil(t, s.Failure, "more than the devices carry is served as far as they do")
		assert.Equal(t, "small", variantOf(r), "never below the floor")
		assert.Contains(t, s.Describe(), "the devices suffice for no more of the rate, and the rest is refused")
		assert.InDelta(t, 400, s.Plan.Pipeline.Modules[0].Rate, 40, "of the rate, what two devices carry at 5 ms")
		offered(60)(r)
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, "own", variantOf(r), "it comes back by itself")
		assert.Equal(t, 75.0, s.Rate, "with a quarter in reserve")
		require.Nil(t, s.Failure)
	})
}

func TestAPipelineThatCannotBeCarriedIsRefusedAtFirst(t *testing.T) {
	script(t, newWorld(2), Settings{}, func(r *rig) {
		r.update(UpdateApply, ApplyRequest{Spec: sorting(2000)})
	}, func(r *rig) {
		s := r.status()
		assert.Zero(t, s.Serving)
		require.NotNil(t, s.Failure)
		assert.Contains(t, s.Failure.Reason, "no combination of variants with an accuracy of at least 0.75 has a plan; with detect=small: ")
	})
}
