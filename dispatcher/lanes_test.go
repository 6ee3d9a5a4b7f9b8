package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// impatient starts what waits on its first executor, once one has its device for itself.
type impatient struct {
	waiting []dispatch.RequestID
	known   []bool
}

func (*impatient) Name() string     { return "impatient" }
func (p *impatient) Len() int       { return len(p.waiting) }
func (*impatient) Describe() string { return "" }

func (p *impatient) Step(_ dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	switch ev.Kind {
	case dispatch.Arrive:
		p.waiting = append(p.waiting, ev.Request.ID)
	case dispatch.ExecutorUp:
		for len(p.known) <= int(ev.Executor) {
			p.known = append(p.known, false)
		}
		p.known[ev.Executor] = true
	case dispatch.ExecutorGone:
		p.known[ev.Executor] = false
	case dispatch.DeviceAlone:
		for id, known := range p.known {
			if known && len(p.waiting) > 0 {
				out = append(out, dispatch.Action{Act: dispatch.Start, Executor: dispatch.ExecutorID(id), Batch: p.waiting})
				p.waiting = nil
			}
		}
	}
	return out
}

// started remembers on which executors batches were started.
type started struct{ on []string }

func (s *started) Start(b *Batch, _ []*Item, _ int) { s.on = append(s.on, b.Executor.Name) }
func (s *started) Drop(*Item, Drop)                 {}

// TestNothingStartsOnAnExecutorThatIsRemoved: when an executor is removed, the policy receives
// that before the new neighbours of the others.
func TestNothingStartsOnAnExecutorThatIsRemoved(t *testing.T) {
	d := New(Options{Now: func() dispatch.Time { return 1 }, Record: -1})
	of := serviceOf("a")
	g, err := d.Compile(of)
	require.NoError(t, err)
	s := d.newStation(g, "m", "")
	s.drive.Policy, s.groups, g.stations = &impatient{}, []groupShape{{batch: 1, window: time.Millisecond}}, []*station{s}
	var all []*Executor
	for _, device := range []string{"one", "two", "two"} {
		all = append(all, d.register(Introduction{Name: "e" + device, Service: "a", Host: "h", Device: device}))
	}
	s.add(member{exec: all[0]})
	s.add(member{exec: all[1]})
	gateway := &started{}
	d.Arrive(&Item{Request: &Request{Generation: g, Gateway: gateway, Arrival: 1}, Size: 1})
	require.Empty(t, gateway.on)
	all[2].releaseDevice() // so that the second is alone, which the policy receives with the next event
	s.remove(all[0])
	require.Equal(t, []string{"etwo"}, gateway.on)
}
