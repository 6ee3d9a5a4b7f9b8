package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// keeper is a gateway that notes what starts and what is given up.
type keeper struct {
	started []*Executor
	dropped []Drop
}

func (k *keeper) Start(b *Batch, _ []*Item, _ int) { k.started = append(k.started, b.Executor) }
func (k *keeper) Drop(_ *Item, why Drop)           { k.dropped = append(k.dropped, why) }

// TestLossesThatAreOne: executors of a host that are lost together cost an item one attempt, since it may have
// killed the first alone. One that was attached after that is another, even within the same time.
func TestLossesThatAreOne(t *testing.T) {
	for name, test := range map[string]struct {
		before bool // the second is attached before the first is lost
		want   []Drop
	}{"of a dead host": {before: true}, "of a host that was back": {want: []Drop{LostTwice}}} {
		t.Run(name, func(t *testing.T) {
			now, k := dispatch.Time(1), new(keeper)
			d := New(Options{Now: func() dispatch.Time { return now }, Record: -1})
			of := serviceOf("a")
			of.Slots = append(of.Slots, of.Slots[0])
			of.Slots[1].Executor = "second"
			register := func(executor string) {
				d.Register(Introduction{Name: executor, Service: "a", Host: "h", Device: executor, Hardware: "cpu"}, true)
			}
			g, err := d.Compile(of)
			require.NoError(t, err)
			d.Install(g, nil, nil)
			register("e-a")
			d.Arrive(&Item{Request: &Request{Generation: g, Gateway: k, Arrival: now}, Size: 1})
			require.Len(t, k.started, 1)
			lose := func() {
				now += 10 * time.Millisecond
				d.Lost(k.started[len(k.started)-1], func(*Batch) {})
				now += 10 * time.Millisecond
			}
			if test.before {
				register("second")
			}
			lose()
			if !test.before {
				register("second")
			}
			require.Len(t, k.started, 2)
			lose()
			assert.Equal(t, test.want, k.dropped)
		})
	}
}
