package autoscale

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func options(least, most int) HostOptions {
	return HostOptions{Hardware: "v100", Min: least, Max: most, Devices: 2, Idle: time.Minute, Join: 5 * time.Minute}
}

// world is a driver and a fleet that carry out every action.
type world struct {
	t     require.TestingT
	h     *Hosts
	now   time.Time
	hosts map[string]*Host
	under []HostAction
	want  int // hosts, of which those of the fleet are taken off
}

func newWorld(t require.TestingT, o HostOptions) *world {
	return &world{t: t, h: NewHosts(o), now: noon, hosts: map[string]*Host{}}
}

func (w *world) seen() HostsSeen {
	s := HostsSeen{}
	present := 0
	for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
		s.Hosts = append(s.Hosts, *w.hosts[name])
		if one := w.hosts[name]; one.Present && !one.Leaving {
			present++
		}
	}
	s.Wanted = max(0, w.want-present)
	return s
}

// look lets the provisioner look, and checks what it may never do.
func (w *world) look() []HostAction {
	seen := w.seen()
	todo := w.h.Observe(w.now, seen)
	stay, free, made := 0, 0, 0
	for _, one := range w.hosts {
		if one.Made {
			made++
		}
		if one.Present && !one.Leaving && one.Ended == "" && !one.Going {
			free += one.Devices - one.Used
			if one.Made {
				stay++
			}
		}
	}
	for _, a := range w.under {
		if a.What == Create && w.hosts[a.Host] == nil {
			made++
		}
	}
	for _, a := range todo {
		assert.False(w.t, slices.ContainsFunc(w.under, func(other HostAction) bool { return other.Host == a.Host }), "%v, and something is under way there", a)
		one := w.hosts[a.Host]
		switch a.What {
		case Create:
			made++
			assert.Nil(w.t, one, "it is there")
		case Drain:
			stay--
			assert.True(w.t, one.Made && one.Present && !one.Leaving, "%+v", one)
			assert.Zero(w.t, seen.Wanted, "drained while more are wanted")
			free -= one.Devices - one.Used
			assert.LessOrEqual(w.t, one.Used, free, "what runs there finds no room")
			assert.GreaterOrEqual(w.t, stay, w.h.Options.Min)
		case Delete:
			assert.True(w.t, one.Made, "others are left alone")
		}
	}
	assert.LessOrEqual(w.t, made, w.h.Options.Max)
	w.under = append(w.under, todo...)
	return todo
}

// end ends an action.
func (w *world) end(a HostAction, err error) {
	w.under = slices.DeleteFunc(w.under, func(other HostAction) bool { return other == a })
	one := w.hosts[a.Host]
	switch a.What {
	case Create:
		w.hosts[a.Host] = &Host{Name: a.Host, Made: true, Since: w.now}
		if err != nil {
			w.hosts[a.Host].Ended = err.Error()
		}
	case Drain:
		if one != nil && err == nil {
			one.Leaving = true
		}
	case Delete:
		if one != nil {
			one.Going = true
			if err == nil {
				delete(w.hosts, a.Host)
			}
		}
	}
	w.h.Done(w.now, a, err)
}

func (w *world) join(name string, devices int) {
	w.hosts[name].Present, w.hosts[name].Devices = true, devices
}

// do ends everything that is under way, well.
func (w *world) do() {
	for _, a := range slices.Clone(w.under) {
		w.end(a, nil)
	}
}

func TestHostsAreMadeWhenAskedForAndEndedWhenIdle(t *testing.T) {
	w := newWorld(t, options(0, 3))
	assert.Empty(t, w.look())
	w.want = 2
	assert.Equal(t, []HostAction{{Create, "v100-1"}, {Create, "v100-2"}}, w.look())
	assert.Empty(t, w.look(), "they are under way")
	w.do()
	assert.Empty(t, w.look(), "they are awaited")
	w.join("v100-1", 2)
	w.join("v100-2", 2)
	w.want = 9
	assert.Equal(t, []HostAction{{Create, "v100-3"}}, w.look(), "no more than allowed")
	w.do()
	w.join("v100-3", 2)
	assert.Empty(t, w.look())
	assert.Equal(t, "6 more hosts wanted, and there are as many as allowed", w.h.Status(w.now, w.seen()).Waits)

	w.want, w.hosts["v100-1"].Used, w.hosts["v100-2"].Used = 0, 1, 2
	assert.Empty(t, w.look())
	w.now = w.now.Add(59 * time.Second)
	assert.Empty(t, w.look(), "not for long enough")
	w.now = w.now.Add(time.Second)
	assert.Equal(t, []HostAction{{Drain, "v100-3"}}, w.look())
	w.do()
	assert.Empty(t, w.look(), "it goes by itself")
	w.hosts["v100-3"].Present = false
	assert.Equal(t, []HostAction{{Delete, "v100-3"}}, w.look())
	w.do()
	assert.Empty(t, w.h.Status(w.now, w.seen()).Problem)
	w.now = w.now.Add(time.Hour)
	assert.Empty(t, w.look(), "the use of one does not fit on the other")
	w.hosts["v100-2"].Used = 1
	w.look()
	w.now = w.now.Add(time.Minute)
	assert.Equal(t, []HostAction{{Drain, "v100-2"}}, w.look(), "now it does")
	w.do()
	w.now = w.now.Add(time.Hour)
	assert.Empty(t, w.look(), "one at a time: what runs there has not moved")
}

func TestAsManyAsMinStay(t *testing.T) {
	w := newWorld(t, options(2, 3))
	assert.Len(t, w.look(), 2)
	w.do()
	w.join("v100-1", 2)
	w.join("v100-2", 2)
	w.look()
	w.now = w.now.Add(time.Hour)
	assert.Empty(t, w.look())
}

func TestAHostThatCannotBeMade(t *testing.T) {
	w := newWorld(t, options(0, 2))
	w.want = 1
	a := w.look()
	require.Len(t, a, 1)
	w.end(a[0], errors.New("no quota left"))
	assert.Equal(t, []HostAction{{Delete, "v100-1"}}, w.look(), "what is half made is taken back, and nothing else is begun at once")
	s := w.h.Status(w.now, w.seen())
	assert.Equal(t, "v100-1: no quota left", s.Problem)
	assert.Equal(t, "tries again in 5s", s.Waits)
	w.end(HostAction{Delete, "v100-1"}, errors.New("the cloud is away"))
	assert.Empty(t, w.look())
	assert.Contains(t, w.h.Status(w.now, w.seen()).Describe(), "v100-1: being ended; it could not be deleted, which is tried again: the cloud is away")
	w.now = w.now.Add(firstRetry)
	assert.Equal(t, []HostAction{{Delete, "v100-1"}, {Create, "v100-2"}}, w.look())
	w.do()
	w.join("v100-2", 2)
	w.look()
	assert.Empty(t, w.h.Status(w.now, w.seen()).Problem, "it works again")
}

func TestAHostThatDoesNotJoin(t *testing.T) {
	w := newWorld(t, options(0, 2))
	w.want = 1
	w.look()
	w.do()
	assert.Empty(t, w.look())
	w.now = w.now.Add(5*time.Minute - 1)
	assert.Empty(t, w.look())
	w.now = w.now.Add(1)
	assert.Equal(t, []HostAction{{Delete, "v100-1"}}, w.look())
	assert.Equal(t, "v100-1: it has not been part of the fleet for 5m0s", w.h.Status(w.now, w.seen()).Problem)
}

// What is not remembered is found again.
func TestAfterTheControlRoleWasKilled(t *testing.T) {
	w := newWorld(t, options(0, 4))
	w.hosts = map[string]*Host{
		"v100-3":   {Name: "v100-3", Made: true, Since: noon.Add(-time.Hour), Present: true, Devices: 2},
		"v100-7":   {Name: "v100-7", Made: true, Since: noon.Add(-time.Hour), Ended: "the command that creates it was not finished"},
		"v100-8":   {Name: "v100-8", Made: true, Since: noon.Add(-time.Hour), Going: true},
		"by hand":  {Name: "by hand", Present: true, Devices: 2},
		"v100-101": {Name: "v100-101", Present: true, Devices: 2},
	}
	assert.Equal(t, []HostAction{{Delete, "v100-7"}, {Delete, "v100-8"}}, w.look())
	w.now, w.want = w.now.Add(time.Minute), 4
	assert.Equal(t, []HostAction{{Create, "v100-102"}}, w.look(), "one is wanted beyond three; no name is used again")
}

func TestAHostWithTooFewDevices(t *testing.T) {
	w := newWorld(t, options(0, 2))
	w.want = 1
	w.look()
	w.do()
	w.join("v100-1", 1)
	assert.Contains(t, w.h.Status(w.now, w.seen()).Describe(), "v100-1: present, 0 of 1 device used; it offers 1 of the 2 v100s that are declared")
}

func TestNumber(t *testing.T) {
	for name, want := range map[string]int{"v100-1": 1, "v100-20": 20, "v100-01": 0, "v100-": 0, "v100-x": 0, "a100-1": 0, "v100--1": 0, "v100-0": 0} {
		got, ok := HostNumber("v100", name)
		assert.Equal(t, want > 0, ok, name)
		if ok {
			assert.Equal(t, want, got)
		}
	}
}

// TestHosts plays drivers that fail, hosts that come late, few or not at all, and use that
// moves, and expects in the end, when all goes well for long, what is wanted and no more.
func TestHosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "max")
		w := newWorld(t, options(rapid.IntRange(0, most).Draw(t, "min"), most))
		if rapid.Bool().Draw(t, "by hand") {
			w.hosts["other"] = &Host{Name: "other", Present: true, Devices: 2}
		}
		restart := func() { // and what was under way was cut off
			w.under, w.h = nil, NewHosts(w.h.Options)
			for _, one := range w.hosts {
				if one.Made && !one.Present && one.Ended == "" && rapid.Bool().Draw(t, "half made") {
					one.Ended = "not finished"
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
			w.look()
			names := slices.Sorted(maps.Keys(w.hosts))
			switch rapid.IntRange(0, 8).Draw(t, "event") {
			case 0:
				w.want = rapid.IntRange(0, 8).Draw(t, "want")
			case 1, 2, 3:
				for _, a := range slices.Clone(w.under) {
					if rapid.Bool().Draw(t, "ends") {
						var err error
						if rapid.IntRange(0, 3).Draw(t, "badly") == 0 {
							err = fmt.Errorf("failure %d", len(names))
						}
						w.end(a, err)
					}
				}
			case 4:
				restart()
			default:
				if len(names) == 0 {
					break
				}
				one := w.hosts[rapid.SampledFrom(names).Draw(t, "host")]
				switch {
				case one.Leaving:
					one.Present, one.Used = false, 0
				case !one.Made:
				case !one.Present && one.Ended == "" && !one.Going:
					w.join(one.Name, rapid.IntRange(1, 2).Draw(t, "devices"))
				case one.Present:
					one.Used = rapid.IntRange(0, one.Devices).Draw(t, "used")
					if rapid.IntRange(0, 5).Draw(t, "dies") == 0 {
						one.Present, one.Used = false, 0
						one.Ended = rapid.SampledFrom([]string{"", "its process has ended"}).Draw(t, "why")
					}
				}
			}
		}
		settle := func(used int) {
			for range 40 {
				w.now = w.now.Add(lastRetry)
				w.look()
				w.do()
				for _, name := range slices.Sorted(maps.Keys(w.hosts)) {
					switch one := w.hosts[name]; {
					case one.Leaving:
						one.Present, one.Used = false, 0
					case one.Made && !one.Present && one.Ended == "" && !one.Going:
						w.join(name, 2)
					}
				}
				for _, one := range w.hosts {
					if one.Present {
						one.Used = min(used, one.Devices)
					}
				}
			}
		}
		count := func() (n int) {
			for _, one := range w.hosts {
				assert.Empty(t, one.Ended, "%+v", one)
				assert.False(t, one.Going, "%+v", one)
				if one.Made {
					n++
				}
			}
			return n
		}
		settle(2)
		others := len(w.hosts) - count()
		assert.GreaterOrEqual(t, count(), min(most, max(w.h.Options.Min, w.want-others)), "what is wanted is there")
		w.want = 0
		settle(0)
		assert.Equal(t, w.h.Options.Min, count(), "and what is not wanted is gone")
	})
}
