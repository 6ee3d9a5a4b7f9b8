package roles

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

const (
	// missEvery is the pace at which a gateway looks which executors it misses. One that is
	// missed twice has had the time to come again after its connection was cut.
	missEvery = time.Second

	// missAgain is how often it reports those that it still misses.
	missAgain = 10 * time.Second
)

// misses reports to services their executors that are not attached here; a service then
// checks whether they will return.
type misses struct {
	gateway string
	from    interface {
		Services() []string
		Deployment(service string) (placement.Deployment, bool)
	}
	tell func(ctx context.Context, service string, m workflows.Missing) error

	mu       sync.Mutex
	attached map[string]int // connections by executor

	before map[string][]string // missed at the last look, by service
	told   map[string]said     // by service
}

type said struct {
	executors []string
	at        time.Time
}

func (m *misses) observer() gateway.Observer {
	return gateway.Observer{
		Attached: func(e gateway.ExecutorInfo) { m.count(e.Executor, 1) },
		Detached: func(e gateway.ExecutorInfo) { m.count(e.Executor, -1) },
	}
}

// count notes a connection that has come or gone. Of an executor that comes again, the new one
// may come before the old one goes.
func (m *misses) count(executor string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached == nil {
		m.attached = map[string]int{}
	}
	if m.attached[executor] += n; m.attached[executor] == 0 {
		delete(m.attached, executor)
	}
}

// missing are the executors of a deployment that are not attached.
func (m *misses) missing(d placement.Deployment) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range d.Slots {
		if name := d.Slots[i].Executor; m.attached[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// keep looks again and again until life ends.
func (m *misses) keep(life context.Context) {
	tick := time.NewTicker(missEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		m.look(ctx)
		cancel()
	}
}

// look reports what is new. A report that fails is sent again at the next look.
func (m *misses) look(ctx context.Context) {
	now, all := map[string][]string{}, map[string]said{}
	for _, service := range m.from.Services() {
		d, _ := m.from.Deployment(service)
		now[service] = m.missing(d)
		long := slices.DeleteFunc(slices.Clone(now[service]), func(e string) bool { return !slices.Contains(m.before[service], e) })
		was := m.told[service]
		if slices.Equal(long, was.executors) && (len(long) == 0 || time.Since(was.at) < missAgain) {
			all[service] = was
			continue
		}
		if m.tell(ctx, service, workflows.Missing{Gateway: m.gateway, Generation: d.Generation, Executors: long}) == nil {
			was = said{long, time.Now()}
		}
		all[service] = was
	}
	m.before, m.told = now, all
}

const (
	// suspectEvery is the least interval between two reports of a host to the fleet.
	suspectEvery = 10 * time.Second
)

// suspicions reports hosts all of whose executors a gateway has lost.
type suspicions struct {
	tell func(host string) // must not block

	mu       sync.Mutex
	attached map[string]int       // executors by host
	told     map[string]time.Time // when, by host
}

func newSuspicions(tell func(host string)) *suspicions {
	return &suspicions{tell: tell, attached: map[string]int{}, told: map[string]time.Time{}}
}

func (d *suspicions) observer() gateway.Observer {
	return gateway.Observer{
		Attached: func(e gateway.ExecutorInfo) { d.count(e.Host, 1) },
		Detached: func(e gateway.ExecutorInfo) {
			if d.count(e.Host, -1) == 0 && e.Err != nil {
				d.lost(e.Host)
			}
		},
	}
}

// count notes an executor that has come or gone, and returns how many are attached.
func (d *suspicions) count(host string, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attached[host] += n
	left := d.attached[host]
	if left == 0 {
		delete(d.attached, host)
	}
	return left
}

// lost reports a host whose last executor has gone. The fleet checks it at once: where only
// its connections were cut, it answers.
func (d *suspicions) lost(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.told[host]) < suspectEvery {
		return
	}
	now := time.Now()
	maps.DeleteFunc(d.told, func(_ string, at time.Time) bool { return now.Sub(at) >= suspectEvery })
	d.told[host] = now
	d.tell(host)
}

// promises are whether the plans of a gateway's pipelines keep what they promise, by what it
// sees itself.
type promises struct {
	mu  sync.Mutex
	all map[string]*promise
}

type promise struct {
	autoscale.Promise
	age placement.Age // of the deployment
	now *autoscale.Broken
}

// see looks at the measures of a service, and forgets those that are not served any more.
func (p *promises) see(from *gateway.Gateway, service string, m autoscale.Measures) {
	d, ok := from.Deployment(service)
	if !ok || d.Cluster != nil || d.Function != nil || d.Pool != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.all[service]
	if of == nil || of.age != d.Age() {
		if p.all == nil {
			p.all = make(map[string]*promise)
		}
		of = &promise{age: d.Age()}
		p.all[service] = of
	}
	of.Observe(m, &d.Pipeline, &d.Plan)
	of.now = of.Broken(&d.Pipeline)
}

// broken are those that are not kept of services that are served.
func (p *promises) broken(served []string) map[string]autoscale.Broken {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]autoscale.Broken)
	kept := make(map[string]*promise)
	for _, service := range served {
		if of := p.all[service]; of != nil {
			if kept[service] = of; of.now != nil {
				all[service] = *of.now
			}
		}
	}
	p.all = kept
	return all
}
