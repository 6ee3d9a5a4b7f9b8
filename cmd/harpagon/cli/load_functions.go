package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

// applications loads a function by all its applications at once.
func (f *loadFlags) applications(ctx context.Context, d *Deps, client *sdk.Client, m *sdk.Metadata, requests []sdk.Inputs) error {
	var all []target
	for _, a := range m.Applications {
		all = append(all, target{m.Pipeline + "/" + a.Name, a, requests})
	}
	done, err := f.loadAll(ctx, d, client, all)
	if err != nil {
		return err
	}
	return f.report(d, "function", m.Pipeline, "applications", done)
}

// members loads a cluster by all its pipelines at once.
func (f *loadFlags) members(ctx context.Context, d *Deps, client *sdk.Client, m *sdk.Metadata) error {
	given := f.inputs
	var all []target
	for _, a := range m.Members {
		of, err := client.Metadata(ctx, a.Name)
		if err != nil {
			return err
		}
		f.inputs = nil
		for _, text := range given {
			if input, ok := strings.CutPrefix(text, a.Name+"/"); ok {
				f.inputs = append(f.inputs, input)
			}
		}
		requests, err := f.requests(of.Inputs)
		if err != nil {
			return err
		}
		all = append(all, target{a.Name, a, requests})
	}
	done, err := f.loadAll(ctx, d, client, all)
	if err != nil {
		return err
	}
	return f.report(d, "cluster", m.Pipeline, "pipelines", done)
}

// target is one of several services that are loaded at once.
type target struct {
	name     string
	planned  pipelines.Application
	requests []sdk.Inputs
}

// loadAll loads several services at once, at the rates that are planned for or in
// proportion to them. Those that nobody asks have no report.
func (f *loadFlags) loadAll(ctx context.Context, d *Deps, client *sdk.Client, all []target) (done []*load.Report, _ error) {
	total := 0.0
	for _, a := range all {
		total += a.planned.Rate
	}
	merged := mergedProgress(len(all), loadProgress(d))
	reports := make([]*load.Report, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		o := f.options
		o.Pipeline, o.Seed, o.Progress = a.name, f.options.Seed+uint64(i), merged(i)
		var err error
		if o.SLO, err = f.objective(o.Pipeline, a.planned.SLO); err != nil {
			return nil, err
		}
		if o.Rate = a.planned.Rate; f.options.Rate > 0 {
			o.Rate = f.options.Rate * Share(a.planned.Rate, total, len(all))
		}
		if o.Rate == 0 {
			continue // nobody asks
		}
		wg.Go(func() {
			reports[i], errs[i] = load.Run(ctx, o, func(ctx context.Context, n int) (*wire.InferResponse, error) {
				result, err := client.Infer(ctx, o.Pipeline, a.requests[n%len(a.requests)])
				if err != nil {
					return nil, err
				}
				return result.Response(), nil
			})
		})
	}
	wg.Wait()
	done = slices.DeleteFunc(reports, func(r *load.Report) bool { return r == nil })
	return done, errors.Join(errs...)
}

// report prints what came of several.
func (f *loadFlags) report(d *Deps, kind, name, parts string, done []*load.Report) error {
	if f.asJSON {
		return writeLoads(d.Stdout, map[string]any{kind: name, parts: done}, done)
	}
	for i, r := range done {
		if i > 0 {
			fmt.Fprintln(d.Stdout)
		}
		fmt.Fprint(d.Stdout, r.Describe())
	}
	return nil
}

// mergedProgress adds up the progress of several runs and tells of the sum when
// the first of them has news.
func mergedProgress(n int, tell func(load.Progress)) func(i int) func(load.Progress) {
	var mu sync.Mutex
	each := make([]load.Progress, n)
	return func(i int) func(load.Progress) {
		return func(p load.Progress) {
			mu.Lock()
			defer mu.Unlock()
			each[i] = p
			if i > 0 {
				return
			}
			p.Sent, p.Completed, p.Late, p.Failed = 0, 0, 0, 0
			for _, one := range each {
				p.Sent += one.Sent
				p.Completed += one.Completed
				p.Late += one.Late
				p.Failed += one.Failed
			}
			tell(p)
		}
	}
}
