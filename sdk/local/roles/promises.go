package roles

import (
	"sync"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// promises are whether the plans of a gateway's pipelines keep what they promise, by what it
// sees itself.
type promises struct {
	mu  sync.Mutex
	all map[string]*promise
}

type promise struct {
	autoscale.Promise
	age placement.Age // of the deployment
	now *autoscale.Broken
}

// see looks at the measures of a service, and forgets those that are not served any more.
func (p *promises) see(from *gateway.Gateway, service string, m autoscale.Measures) {
	d, ok := from.Deployment(service)
	if !ok || d.Cluster != nil || d.Function != nil || d.Pool != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.all[service]
	if of == nil || of.age != d.Age() {
		if p.all == nil {
			p.all = make(map[string]*promise)
		}
		of = &promise{age: d.Age()}
		p.all[service] = of
	}
	of.Observe(m, &d.Pipeline, &d.Plan)
	of.now = of.Broken(&d.Pipeline)
}

// broken are those that are not kept of services that are served.
func (p *promises) broken(served []string) map[string]autoscale.Broken {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]autoscale.Broken)
	kept := make(map[string]*promise)
	for _, service := range served {
		if of := p.all[service]; of != nil {
			if kept[service] = of; of.now != nil {
				all[service] = *of.now
			}
		}
	}
	p.all = kept
	return all
}
