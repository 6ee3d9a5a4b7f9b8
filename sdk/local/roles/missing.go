package roles

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

const (
	// missEvery is the pace at which a gateway looks which executors it misses. One that is
	// missed twice has had the time to come again after its connection was cut.
	missEvery = time.Second

	// missAgain is how often it tells of those that it still misses.
	missAgain = 10 * time.Second
)

// misses tells services of executors of what they serve that are not attached here: they look
// whether those will come again.
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

// look tells what is new. A service that cannot be told now is told at the next look.
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
