package world

import (
	"math/rand/v2"
	"time"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
)

// The clocks of processes, and that of control, are up to hours wrong, each by another
// time, and are set while they run. Messages are read by the receiver's clock, as over gRPC;
// dispatchers that claim services by themselves make epochs by theirs, and control by its
// own.

// wrong draws by how much a clock is wrong.
func wrong(r *rand.Rand) time.Duration {
	return between(r, -2*time.Hour, 2*time.Hour).Truncate(time.Second)
}

// clock is the time of day by the process's clock, which may be wrong; elapsed time is exact.
func (p *process) clock() time.Time {
	p.mu.Lock()
	by := p.wrong
	p.mu.Unlock()
	return testkit.SetClock(time.Now(), by)
}

func (p *process) setClock(by time.Duration) {
	p.mu.Lock()
	p.wrong = by
	p.mu.Unlock()
}

// setClocks sets one clock after the other. That of a process that is not there is set,
// too, so that it may start with an earlier time than it had.
func (w *world) setClocks() {
	r := random(w.seed, "clocks")
	all := append(w.processes(), &w.control)
	for _, p := range all {
		p.setClock(wrong(r))
	}
	w.ends.Go(func() {
		for w.pause(between(r, 10*time.Millisecond, 600*time.Millisecond)) && w.troubled() {
			p, by := all[r.IntN(len(all))], wrong(r)
			w.history.fault()
			w.history.note("the clock of %s is %v wrong", p.name, by)
			p.setClock(by)
		}
	})
}

// nextEpoch is that of an owner by whom control replaces another, as workflows makes
// them. World.mu is held.
func (w *world) nextEpoch() uint64 {
	const bits = 16 // for those that dispatchers claim by themselves
	w.epoch = max(w.epoch+1, uint64(w.control.clock().UnixMilli())<<bits)
	return w.epoch
}

// sent is a message as it leaves a process, and received as it comes to another. A gateway
// counts what is due from when it began, which in virtual time is a time of day; so that is
// the world's, and only hosts read it by their own clocks.
func (w *world) sent(m *attach.Message, by *process) (*pb.Message, error) {
	p, err := attach.Encode(m, time.Now())
	if err != nil {
		w.history.violate("%s cannot send %+v: %v", by.name, m, err)
	}
	return p, err
}

func (w *world) received(p *pb.Message, by *process) *attach.Message {
	m, err := attach.Decode(p, by.clock())
	if err != nil {
		w.history.violate("%s cannot read %v: %v", by.name, p, err)
	}
	return m
}
