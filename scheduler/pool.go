package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// poolService is a pool: it serves what its money limit pays for.
type poolService struct{ noService }

func (poolService) kind() Kind                             { return KindPool }
func (s poolService) name() string                         { return s.Pool.Name }
func (s poolService) planning() pipelines.Planning         { return s.Pool.Plan }
func (s poolService) slo() time.Duration                   { return s.Pool.SLO }
func (s poolService) measured() (pipelines.Pipeline, bool) { return s.Pool.Served(), true }

// rate is what the plan sustains.
func (s poolService) rate(p Plan) float64 {
	if p.Pool == nil {
		return 0
	}
	return p.Pool.Goodput
}

func (s poolService) withProfiles(points map[string][]pipelines.Point) Spec {
	if own := points[pipelines.PoolModule]; len(own) > 0 {
		p := *s.Pool
		p.Profile.Points = own
		s.Pool = &p
	}
	return s.Spec
}

func (s poolService) solve(_ []Spec, fleet Fleet, limits Limits) []Plan {
	p := s.plan(fleet, limits)
	return []Plan{{Pool: &p}}
}

// plan is a pool's on what workers offer of its hardware.
func (s poolService) plan(fleet Fleet, l Limits) pool.Plan {
	problem := pool.Problem{Pool: *s.Pool, Hardware: fleet.available(s.Hardware)}
	if fleet.Devices != nil {
		if !slices.ContainsFunc(problem.Hardware, func(h pipelines.Hardware) bool { return h.Name == s.Pool.Base }) {
			reason := fmt.Sprintf("no worker offers the base %q, of which a pool has at least one instance; start one with harpagon worker --hardware %s, or choose another base", s.Pool.Base, s.Pool.Base)
			return pool.Plan{Pool: s.Pool.Name, Policy: s.Pool.Plan.Policy, Status: pool.Infeasible, Reason: reason, SLO: s.Pool.SLO, Budget: s.Pool.Budget}
		}
		problem.Pool.Hardware = slices.DeleteFunc(slices.Clone(s.Pool.Hardware), func(kind string) bool {
			return unknown(s.Pool, kind) || !slices.ContainsFunc(problem.Hardware, func(h pipelines.Hardware) bool { return h.Name == kind })
		})
	}
	return pool.Solve(problem, pool.Options{Policy: s.Pool.Plan.Policy, Stop: l.ended()})
}

// unknown reports whether a pool with measurements has none of a kind, such as one declared
// later. The base is never unknown.
func unknown(p *pipelines.Pool, kind string) bool {
	return kind != p.Base && !p.Learns() && len(p.Profile.Latency(kind)) == 0
}

func (s poolService) deploy(d *placement.Deployment, p Plan) {
	d.Pipeline, d.Plan = s.Pool.Served(), pool.Served(*s.Pool, *p.Pool)
	d.Pipeline.Rate = p.Pool.Goodput
	*d = pool.Deploy(*d, *s.Pool, *p.Pool)
}
