package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	made "github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// cloud is a driver and a fleet: hosts join a second after they were made.
type cloud struct {
	mu     sync.Mutex
	all    []made.HostRecord
	view   FleetView
	fails  error // of Create
	broken error // of List
	slow   time.Duration
}

func (c *cloud) Create(ctx context.Context, name string) error {
	c.mu.Lock()
	slow, fails := c.slow, c.fails
	c.all = append(c.all, made.HostRecord{Name: name, Since: time.Now(), Ended: "not finished"})
	c.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.all, func(m made.HostRecord) bool { return m.Name == name })
	if fails != nil {
		c.all[i].Ended = fails.Error()
		return fails
	}
	c.all[i].Ended = ""
	time.AfterFunc(time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.view.Hosts = append(c.view.Hosts, HostInfo{Name: name, Devices: []placement.Device{{Host: name, Name: "0", Hardware: "v100"}}})
		c.view.Wants = nil
	})
	return nil
}

func (c *cloud) Delete(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(m made.HostRecord) bool { return m.Name == name })
	return nil
}

func (c *cloud) List() ([]made.HostRecord, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all), c.broken
}

func (c *cloud) leave(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view.Hosts = slices.DeleteFunc(c.view.Hosts, func(h HostInfo) bool { return h.Name == name })
	return nil
}

func (c *cloud) look(context.Context) (FleetView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	view := c.view
	view.Hosts = slices.Clone(view.Hosts)
	return view, nil
}

func (c *cloud) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cloud) names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.all {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

func provisioned(c *cloud) (*Provisioner, Member) {
	m := Member{Kind: KindProvisioner, Name: "v100", Instance: "me", Offer: &Offer{Hardware: "v100", Devices: 1, Max: 3}}
	c.view.Members = []Member{m}
	return &Provisioner{
		Options: autoscale.HostOptions{Hardware: "v100", Max: 3, Devices: 1, Idle: time.Minute, Join: 5 * time.Minute},
		Driver:  c, View: c.look, Leave: c.leave,
	}, m
}

func (p *Provisioner) now() autoscale.HostsStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (c *cloud) want(n int) {
	c.change(func() { c.view.Wants = map[string][]Want{"pipeline/a": {{"v100", n}}} })
}

// TestAProvisionerMakesWhatIsWanted: a host is made when it is wanted and ended when it has
// idled; a process that the fleet does not hold does nothing.
func TestAProvisionerMakesWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{slow: 10 * time.Second}
		p, m := provisioned(c)
		life, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.run(life, m) })
		other := m
		other.Instance = "another"
		running.Go(func() { (&Provisioner{Options: p.Options, Driver: c, View: c.look, Leave: c.leave}).run(life, other) })

		time.Sleep(5 * time.Second)
		assert.Empty(t, c.names())
		c.want(1)
		time.Sleep(5 * time.Second)
		assert.Equal(t, []string{"v100-1"}, c.names())
		assert.Equal(t, autoscale.Making, p.now().Hosts[0].State)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"v100-1"}, c.names(), "no more than was wanted")
		assert.Equal(t, autoscale.Serving, p.now().Hosts[0].State)
		c.change(func() { c.view.Reserved = map[string][]placement.Slot{"pipeline/a": {{Host: "v100-1", Device: "0"}}} })
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"v100-1"}, c.names())
		c.change(func() { c.view.Reserved = nil })
		time.Sleep(55 * time.Second)
		assert.Len(t, c.names(), 1)
		time.Sleep(10 * time.Second)
		assert.Empty(t, c.names())

		c.change(func() { c.fails = errors.New("no quota left") })
		c.want(2)
		time.Sleep(11 * time.Second)
		assert.Contains(t, p.now().Problem, "no quota left")
		c.change(func() { c.fails = nil })
		time.Sleep(time.Minute)
		require.Len(t, c.names(), 2)
		assert.Empty(t, p.now().Problem)

		c.change(func() { c.broken = errors.New("a file cannot be read") })
		c.want(9)
		time.Sleep(time.Minute)
		assert.Equal(t, "a file cannot be read", p.now().Problem)
		assert.Len(t, c.names(), 2, "without a list of hosts none is made")
		end()
		running.Wait()
	})
}

// TestAProvisionerIsBrokenOff: at its end nothing is left under way.
func TestAProvisionerIsBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cloud{slow: time.Hour}
		p, m := provisioned(c)
		life, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.run(life, m) })
		c.want(2)
		time.Sleep(5 * time.Second)
		assert.Len(t, c.names(), 2)
		end()
		running.Wait()
		next, _ := provisioned(c)
		life, end = context.WithCancel(t.Context())
		running.Go(func() { next.run(life, m) })
		c.change(func() { c.slow = time.Second })
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"v100-3", "v100-4"}, c.names(), "a half-made host is deleted and made again")
		end()
		running.Wait()
	})
}

// Wanted are the devices that services hold, each once, and those of the hosts that they
// want, of hardware with a provisioner.
func TestDevicesWanted(t *testing.T) {
	offer := func(hardware string, devices int) Member {
		return Member{Kind: KindProvisioner, Name: hardware, Offer: &Offer{Hardware: hardware, Devices: devices, Max: 9}}
	}
	slot := func(host, device, hardware string) placement.Slot {
		return placement.Slot{Host: host, Device: device, Hardware: hardware}
	}
	view := FleetView{
		Members: []Member{{Kind: KindGateway, Name: "g"}, offer("cpu", 2), offer("h100", 8)},
		Reserved: map[string][]placement.Slot{
			"pipeline/a": {slot("one", "cpu/0", "cpu"), slot("one", "cpu/0", "cpu"), slot("two", "cpu/0", "cpu"), slot("one", "gpu/x", "a100")},
			"pipeline/b": {slot("two", "cpu/0", "cpu"), slot("two", "cpu/1", "cpu")},
		},
		Wants: map[string][]Want{"pipeline/b": {{Hardware: "cpu", Hosts: 2}}, "pipeline/c": {{Hardware: "cpu", Hosts: 1}, {Hardware: "v100", Hosts: 5}}},
	}
	require.Equal(t, map[string]int{"cpu": 3 + 3*2, "h100": 0}, view.DevicesWanted())
	require.Empty(t, FleetView{}.DevicesWanted())
}
