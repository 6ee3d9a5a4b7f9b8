package roles

import (
	"context"
	"errors"
	"time"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/workflows/control"
)

// How a member of the fleet notices that it is one no more: the fleet offers its
// hold activity again within seconds where it still counts on it. It joins at once where the
// server says that the fleet does not: a process that was stopped for seconds has gone on.
const (
	lookEvery   = 5 * time.Second
	lostAfter   = 6 // looks without being held
	fencedAfter = 2 // looks, where the server has said that it does not count on the member
	joinWithin  = 20 * time.Second
)

// errTaken is why a member does not join again: another process is held under its name.
var errTaken = errors.New("roles: another process has the name")

// stay joins the fleet again whenever it has lost sight of the member, until life
// ends, or, which it says, another process has taken the member's name. While the
// server is away nothing is lost: nobody has said so.
func stay(life context.Context, p *activities.Presence, join func(context.Context) error) (replaced bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for missed := 0; ; {
		over := false
		select {
		case <-tick.C:
		case <-p.Over():
			over = true
		case <-life.Done():
			return false
		}
		if missed++; p.Held() {
			missed, over = 0, false
		}
		if !over && missed < lostAfter && (missed < fencedAfter || !p.Fenced()) {
			continue
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		err := join(ctx)
		cancel()
		if errors.Is(err, errTaken) {
			return true
		}
		if err == nil {
			missed = 0
		}
	}
}

// reenter has a member join again, unless another process has its name by now.
func reenter(ctx context.Context, commands *control.Control, m activities.Member) (view activities.FleetView, err error) {
	if view, err = commands.Fleet(ctx); err == nil && view.Taken(m) {
		return view, errTaken
	}
	return commands.Enter(ctx, m)
}
