package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// SettleInput is a deployment to be placed and reserved in one go. What a fleet has and
// others hold is filled into the request: that of a pipeline or a pool, or of a cluster.
type SettleInput struct {
	Service string
	Own     []string                  // IDs under which it holds devices that it may use
	Request *placement.Request        `json:",omitempty"`
	Cluster *placement.ClusterRequest `json:",omitempty"`
	Apart   bool                      `json:",omitempty"` // on devices that nothing else uses
	Wants   []Want                    `json:",omitempty"`
}

// Settled is where it was placed, and the fleet that it was placed on.
type Settled struct {
	Placement placement.Placement
	View      FleetView
}

// Settle places and reserves, one service after the other: of many that start at once and
// place side by side, each would find that another was faster, most of them every time.
// Another control role may still be; then it is done over.
func (f *Fleet) Settle(ctx context.Context, in SettleInput) (Settled, error) {
	defer beat(ctx, nothing)()
	f.ready.Do(func() { f.turn = make(chan struct{}, 1) })
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		out, err := f.settle(ctx, in)
		if ReasonType(err) != TypeConflict {
			return out, err
		}
	}
	return Settled{}, ctx.Err()
}

func (f *Fleet) settle(ctx context.Context, in SettleInput) (out Settled, err error) {
	if out.View, err = ViewFleet(ctx, f.Client); err != nil {
		return out, err
	}
	if in.Apart {
		out.View = out.View.Unused()
	}
	free := out.View.For(in.Own...)
	var planning Planning
	switch version := out.View.Version; {
	case in.Cluster != nil:
		r := *in.Cluster
		r.Devices, r.Reserved, r.Start = free.Devices, free.Held, version
		out.Placement, err = planning.PlaceCluster(ctx, r)
	case in.Request != nil:
		r := *in.Request
		r.Devices, r.Reserved, r.Start = free.Devices, free.Held, version
		out.Placement, err = planning.Place(ctx, r)
	default:
		err = temporal.NewNonRetryableApplicationError("activities: there is nothing to place", TypeInvalid, errors.ErrUnsupported)
	}
	if err != nil {
		return out, err
	}
	_, err = f.Reserve(ctx, Reservation{Service: in.Service, Version: out.View.Version, Slots: out.Placement.Slots, Wants: in.Wants})
	return out, err
}
