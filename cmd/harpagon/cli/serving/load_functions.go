package serving

import (
	"context"
	"fmt"
	"sync"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

// applications loads a function by all its applications at once.
func (f *loadFlags) applications(ctx context.Context, d *command.Deps, client *sdk.Client, m *sdk.Metadata, requests []sdk.Inputs) error {
	total := 0.0
	for _, a := range m.Applications {
		total += a.Rate
	}
	merged := mergedProgress(len(m.Applications), loadProgress(d))
	reports := make([]*load.Report, len(m.Applications))
	errs := make([]error, len(m.Applications))
	var wg sync.WaitGroup
	for i, a := range m.Applications {
		o := f.options
		o.Pipeline, o.Seed, o.Progress = m.Pipeline+"/"+a.Name, f.options.Seed+uint64(i), merged(i)
		var err error
		if o.SLO, err = f.objective(o.Pipeline, a.SLO); err != nil {
			return err
		}
		if o.Rate = a.Rate; f.options.Rate > 0 {
			o.Rate = f.options.Rate * command.Share(a.Rate, total, len(m.Applications))
		}
		if o.Rate == 0 {
			continue // nobody asks
		}
		wg.Go(func() {
			reports[i], errs[i] = load.Run(ctx, o, func(ctx context.Context, n int) (*wire.InferResponse, error) {
				result, err := client.Infer(ctx, o.Pipeline, requests[n%len(requests)])
				if err != nil {
					return nil, err
				}
				return result.Response(), nil
			})
		})
	}
	wg.Wait()
	var done []*load.Report
	for i, r := range reports {
		if errs[i] != nil {
			return errs[i]
		}
		if r != nil {
			done = append(done, r)
		}
	}
	if f.asJSON {
		return writeLoads(d.Stdout, map[string]any{"function": m.Pipeline, "applications": done}, done)
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
