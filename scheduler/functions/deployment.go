package functions

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// Deployment is what a gateway needs to serve a function: the plan, and the provider to
// call.
type Deployment struct {
	Generation int
	Function   pipelines.Function
	Provider   pipelines.Provider
	Plan       Plan
}

// Check reports what keeps the deployment from being served.
func (d Deployment) Check() error {
	switch {
	case d.Plan.Status == Infeasible:
		return fmt.Errorf("functions: function %q has no plan: %s", d.Function.Name, d.Plan.Reason)
	case len(d.Plan.Groups) == 0:
		return fmt.Errorf("functions: the plan of function %q has no groups", d.Function.Name)
	}
	for i := range d.Plan.Groups {
		if _, err := d.URL(i); err != nil {
			return fmt.Errorf("functions: function %q: %w", d.Function.Name, err)
		}
	}
	return nil
}

// URL is where a group's batches go.
func (d Deployment) URL(group int) (string, error) {
	return d.Provider.CallURL(d.Plan.Groups[group].at(d.Function.Name))
}

func (o Offer) at(function string) pipelines.FunctionSize {
	return pipelines.FunctionSize{
		Function: function, Platform: string(o.Platform), VCPU: o.VCPU, GPUMemory: o.GPUMemory, Batch: o.Batch,
	}
}

// Describe is the size of the function in words, such as "2 GB GPU".
func (o Offer) Describe() string { return o.size() }

// Managed is one function of one size as configured at its provider.
type Managed struct {
	Name                   string  // the last part of its address
	pipelines.FunctionSize         // Batch is the largest that it is sent
	Host                   float64 `json:",omitempty"` // GB of host memory, where it is billed
	Concurrency            int     // calls that may run at once
	Warm                   int     // instances to have started before traffic comes
}

// warmShare is the share of calls that is to find an instance which has started
// already, in the steady state.
const warmShare = 0.999

// Managed is what the plan needs of its provider, in the order of names. Groups
// whose functions have one address share it.
func (d Deployment) Managed() []Managed {
	all := map[string]Managed{}
	for i := range d.Plan.Groups {
		g := &d.Plan.Groups[i]
		at, err := d.URL(i)
		if err != nil {
			continue // Check refuses such a deployment
		}
		m := Managed{
			Name: at[strings.LastIndexByte(at, '/')+1:], FunctionSize: g.at(d.Function.Name), Host: g.Host,
			Concurrency: d.Provider.CallConcurrency(), Warm: g.busy(),
		}
		if same, ok := all[m.Name]; ok {
			warm := same.Warm + m.Warm
			m = larger(same, m)
			m.Warm = warm
		}
		m.Warm = min(m.Warm, m.Concurrency)
		all[m.Name] = m
	}
	return sorted(all)
}

// busy is how many instances are enough for all but one of a thousand calls: calls
// come at random and each has an instance of its own, so that the number of them is
// Poisson distributed around calls per second times seconds a call.
func (g *Group) busy() int {
	mean := g.Rate / float64(g.Batch) * g.Avg
	share := math.Exp(-mean)
	sum, n := share, 0
	for most := int(mean+10*math.Sqrt(mean)) + 10; sum < warmShare && n < most; {
		n++
		share *= mean / float64(n)
		sum += share
	}
	return max(1, n)
}

// larger has the larger size and bounds of both.
func larger(a, b Managed) Managed {
	a.VCPU, a.GPUMemory, a.Host = max(a.VCPU, b.VCPU), max(a.GPUMemory, b.GPUMemory), max(a.Host, b.Host)
	a.Batch, a.Concurrency, a.Warm = max(a.Batch, b.Batch), max(a.Concurrency, b.Concurrency), max(a.Warm, b.Warm)
	return a
}

func sorted(all map[string]Managed) []Managed {
	return slices.SortedFunc(maps.Values(all), func(a, b Managed) int { return cmp.Compare(a.Name, b.Name) })
}

// Both is what serves while traffic moves from one plan to the next: the functions of
// either, and where both have one, the larger.
func Both(from, to []Managed) []Managed {
	all := map[string]Managed{}
	for _, m := range slices.Concat(from, to) {
		if same, ok := all[m.Name]; ok {
			m = larger(same, m)
		}
		all[m.Name] = m
	}
	return sorted(all)
}

// Managing is what a provider is to do, so that it has what is wanted.
type Managing struct {
	Create, Resize, Delete []Managed
}

// Manage compares what is wanted with what a provider has of the function. Doing it
// twice does nothing the second time.
func Manage(want, has []Managed) Managing {
	var c Managing
	left := map[string]Managed{}
	for _, m := range has {
		left[m.Name] = m
	}
	for _, m := range want {
		switch is, ok := left[m.Name]; {
		case !ok:
			c.Create = append(c.Create, m)
		case is != m:
			c.Resize = append(c.Resize, m)
		}
		delete(left, m.Name)
	}
	c.Delete = sorted(left)
	return c
}

// Describe lists the changes in words.
func (c Managing) Describe() string {
	var parts []string
	for _, some := range []struct {
		verb string
		all  []Managed
	}{{"create", c.Create}, {"resize", c.Resize}, {"delete", c.Delete}} {
		for _, m := range some.all {
			parts = append(parts, fmt.Sprintf("%s %s", some.verb, m.Name))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
