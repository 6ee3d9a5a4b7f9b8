package serverless

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// SurveyOptions of Survey.
type SurveyOptions struct {
	Calls       int               // of each function and batch
	Offers      []functions.Offer // what to call; nil takes functions.Survey
	Provisioner Provisioner       // nil where functions exist already
	Report      func(line string) // of progress; nil for none
}

// SurveyResult is what was measured.
type SurveyResult struct {
	Samples   []functions.Sample
	Way       []time.Duration // of each call, besides what the provider bills and cold starts
	Starts    []time.Duration // of cold starts, where the provider reports them
	Refused   []SurveyRefusal
	Estimated bool    // some times are this side's clock, network included
	Cost      float64 // money, by the declared terms, first calls included
}

// SurveyRefusal is a batch that a function did not answer.
type SurveyRefusal struct {
	Offer  functions.Offer
	Reason string
}

// Holds is what the GPU functions that were called hold, as GPULine.Thresholds has it:
// entry i is the largest batch that functions of i+1 GB answered, or the next smaller
// ones that were called. Functions above hold all that any did, which is most.
func (r SurveyResult) Holds() (thresholds []int, most int) {
	answered := map[int]int{}
	for _, s := range r.Samples {
		if s.Platform == functions.GPU {
			answered[int(s.Size)] = max(answered[int(s.Size)], s.Batch)
			most = max(most, s.Batch)
		}
	}
	if most == 0 {
		return nil, 0
	}
	for size, holds := 1, 0; ; size++ {
		if holds = max(holds, answered[size]); holds == most {
			return thresholds, most
		}
		thresholds = append(thresholds, holds)
	}
}

// taking is how long a provider may take to create functions, or to take them back.
const taking = 10 * time.Minute

// Survey calls functions one after another. Its error is about the declaration, a provider
// that cannot be managed, or ctx; calls that go wrong are in the result.
func Survey(ctx context.Context, i *Invoker, p functions.Problem, o SurveyOptions) (r SurveyResult, err error) {
	if o.Report == nil {
		o.Report = func(string) {}
	}
	if o.Offers == nil {
		most := pipelines.DefaultGPUBatch
		if g := p.Function.Profile.GPU; g != nil {
			most = g.Batches()
		}
		o.Offers = functions.Survey(&p.Provider, p.Function.Profile.Memory, most)
	}
	d := functions.Deployment{Function: p.Function, Provider: p.Provider}
	for _, offer := range o.Offers {
		d.Plan.Groups = append(d.Plan.Groups, functions.Group{Offer: offer})
	}
	if o.Provisioner != nil {
		end, err := manage(ctx, o.Provisioner, d, o.Report)
		if err != nil {
			return r, err
		}
		defer func() {
			if ended := end(); err == nil {
				err = ended
			}
		}()
	}
	requests, err := newRequests(ctx, i, d)
	if err != nil {
		return r, err
	}
	for group, offer := range o.Offers {
		if slices.ContainsFunc(r.Refused, func(f SurveyRefusal) bool { return sameSize(f.Offer, offer) }) {
			continue
		}
		t, err := i.Target(d, group)
		if err != nil {
			return r, err
		}
		if err := r.measure(ctx, t, Batch{Items: requests.batch(offer.Batch)}, o); err != nil {
			return r, err
		}
	}
	return r, nil
}

func sameSize(a, b functions.Offer) bool {
	return a.Platform == b.Platform && a.VCPU == b.VCPU && a.GPUMemory == b.GPUMemory
}

// manage has the functions created beside what there is; end takes them back.
func manage(ctx context.Context, by Provisioner, d functions.Deployment, report func(string)) (end func() error, err error) {
	has, err := by.Describe(ctx, d.Function.Name)
	if err != nil {
		return nil, fmt.Errorf("survey: the provider does not list function %q: %w", d.Function.Name, err)
	}
	var before []functions.Managed
	for _, one := range has {
		before = append(before, one.Managed)
	}
	end = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), taking)
		defer cancel()
		did, err := Ensure(ctx, by, d.Function.Name, before)
		report("provider: " + did.Describe())
		return err
	}
	in, cancel := context.WithTimeout(ctx, taking)
	defer cancel()
	did, err := Ensure(in, by, d.Function.Name, functions.Both(before, d.Managed()))
	report("provider: " + did.Describe())
	if err != nil {
		_ = end()
		return nil, err
	}
	return end, nil
}

// measure calls one function with one batch.
func (r *SurveyResult) measure(ctx context.Context, t *Target, b Batch, o SurveyOptions) error {
	var seconds []float64
	for n := range o.Calls + 1 {
		out := t.Call(ctx, b)
		r.Cost += out.Cost
		if ctx.Err() != nil {
			return fmt.Errorf("survey: ended after %d calls: %w", len(r.Samples), context.Cause(ctx))
		}
		if out.Err != nil {
			r.Refused = append(r.Refused, SurveyRefusal{t.Offer, out.Err.Error()})
			o.Report(fmt.Sprintf("%s, batch %d: %v", t.Offer.Describe(), t.Offer.Batch, out.Err))
			return nil
		}
		if out.Cold && out.Init > 0 {
			r.Starts = append(r.Starts, out.Init)
		}
		if n == 0 {
			continue // it may have started an instance
		}
		seconds = append(seconds, out.Run.Seconds())
		r.Estimated = r.Estimated || out.Estimated
		if !out.Estimated && out.Attempts == 1 {
			r.Way = append(r.Way, max(0, out.Elapsed-out.Run-out.Init))
		}
	}
	for _, s := range seconds {
		r.Samples = append(r.Samples, functions.Sample{Platform: t.Offer.Platform, Size: max(t.Offer.VCPU, t.Offer.GPUMemory), Batch: t.Offer.Batch, Seconds: s})
	}
	o.Report(fmt.Sprintf("%s, batch %d: %.4g to %.4g ms", t.Offer.Describe(), t.Offer.Batch, slices.Min(seconds)*1e3, slices.Max(seconds)*1e3))
	return nil
}

// requests are made up from the inputs that the function declares.
type requests struct {
	inputs []pipelines.Port
	random *rand.Rand
}

func newRequests(ctx context.Context, i *Invoker, d functions.Deployment) (*requests, error) {
	r := &requests{inputs: d.Function.Inputs, random: rand.New(rand.NewPCG(1, 2))}
	if len(r.inputs) > 0 || len(d.Plan.Groups) == 0 {
		return r, nil
	}
	t, err := i.Target(d, 0)
	if err != nil {
		return nil, err
	}
	about, err := t.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("survey: function %q declares no input, and the metadata of its provider name none; add an input block: %w", d.Function.Name, err)
	}
	r.inputs = about.Inputs
	return r, nil
}

func (r *requests) batch(n int) [][]wire.NamedTensor {
	items := make([][]wire.NamedTensor, n)
	for k := range items {
		for j, tensor := range executors.SampleInputs(r.inputs, nil, nil, r.random) {
			items[k] = append(items[k], wire.NamedTensor{Name: r.inputs[j].Name, Tensor: tensor})
		}
	}
	return items
}
