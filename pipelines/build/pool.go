package build

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// PoolBuilder declares a pool in Go. Its methods may be chained; what is wrong
// comes out of Build, all of it.
//
//	p, err := build.NewPool("ranking").
//		SLO(350*time.Millisecond).Budget(2.5).
//		Base("g4dn.xlarge").On("g4dn.xlarge", "r5n.large").
//		Profile(points...).Sizes(mix...).
//		Build()
type PoolBuilder struct {
	p    pipelines.Pool
	errs []error
}

// NewPool starts a pool.
func NewPool(name string) *PoolBuilder { return &PoolBuilder{p: pipelines.Pool{Name: name}} }

// SLO sets the latency objective of every query.
func (b *PoolBuilder) SLO(d time.Duration) *PoolBuilder { b.p.SLO = d; return b }

// Budget sets the money per hour that the pool may cost.
func (b *PoolBuilder) Budget(perHour float64) *PoolBuilder { b.p.Budget = perHour; return b }

// Base names the kind of hardware that meets the SLO at every size.
func (b *PoolBuilder) Base(hardware string) *PoolBuilder { b.p.Base = hardware; return b }

// On limits the hardware that may be in the pool.
func (b *PoolBuilder) On(hardware ...string) *PoolBuilder { b.p.Hardware = hardware; return b }

// Arrivals sets how queries come: "even", "poisson", "gamma:SHAPE".
func (b *PoolBuilder) Arrivals(kind string) *PoolBuilder { b.p.Arrivals = kind; return b }

// Plan sets how the pool is planned.
func (b *PoolBuilder) Plan(p pipelines.Planning) *PoolBuilder { b.p.Plan = p; return b }

// Profile says how long queries take; the Batch of a point is a size.
func (b *PoolBuilder) Profile(points ...pipelines.Point) *PoolBuilder {
	b.p.Profile.Points = append(b.p.Profile.Points, points...)
	return b
}

// Learned leaves the pool unmeasured: what queries take is learned while it serves.
func (b *PoolBuilder) Learned() *PoolBuilder { b.p.Learned = true; return b }

// Sizes says how often queries have which size.
func (b *PoolBuilder) Sizes(sizes ...pipelines.Size) *PoolBuilder {
	for _, s := range sizes {
		switch {
		case s.Size < 1 || s.Size > pipelines.MaxBatch:
			b.errs = append(b.errs, fmt.Errorf("pipelines: a query has between 1 and %d items, not %d", pipelines.MaxBatch, s.Size))
		case !(s.Weight >= 0) || s.Weight > pipelines.MaxWeight:
			b.errs = append(b.errs, fmt.Errorf("pipelines: size %d has the weight %v; a weight is from zero to %.0g", s.Size, s.Weight, pipelines.MaxWeight))
		case slices.ContainsFunc(b.p.Sizes, func(other pipelines.Size) bool { return other.Size == s.Size }):
			b.errs = append(b.errs, fmt.Errorf("pipelines: size %d is given twice", s.Size))
		}
		b.p.Sizes = append(b.p.Sizes, s)
	}
	slices.SortFunc(b.p.Sizes, func(a, b pipelines.Size) int { return a.Size - b.Size })
	return b
}

// Build returns the pool, or everything that is wrong with it whatever prices
// it will meet. pipelines.Document finds the rest.
func (b *PoolBuilder) Build() (pipelines.Pool, error) {
	if !pipelines.IsName(b.p.Name) {
		b.errs = append(b.errs, fmt.Errorf("pipelines: %q cannot name a pool", b.p.Name))
	}
	if len(b.errs) > 0 {
		return b.p, errors.Join(b.errs...)
	}
	doc := pipelines.Document{Pools: []pipelines.Pool{b.p}}
	for _, at := range b.p.Profile.Points {
		if doc.HardwareNamed(at.Hardware).Name == "" {
			doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: at.Hardware, Price: b.p.Budget})
		}
	}
	if !(b.p.Budget > 0) {
		doc.Hardware = nil // a budget of nothing is reported, prices are not
		for _, at := range b.p.Profile.Points {
			if doc.HardwareNamed(at.Hardware).Name == "" {
				doc.Hardware = append(doc.Hardware, pipelines.Hardware{Name: at.Hardware, Price: 1})
			}
		}
	}
	return b.p, pipelines.CheckDocument(doc, nil)
}
