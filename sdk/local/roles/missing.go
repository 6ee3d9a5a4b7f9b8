package roles

import (
	"context"
	"slices"
	"time"

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
		Missing(service string) []string
		Deployment(service string) (placement.Deployment, bool)
	}
	tell func(ctx context.Context, service string, m workflows.Missing) error

	before map[string][]string // missed at the last look, by service
	told   map[string]said     // by service
}

type said struct {
	executors []string
	at        time.Time
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
		now[service] = m.from.Missing(service)
		long := slices.DeleteFunc(slices.Clone(now[service]), func(e string) bool { return !slices.Contains(m.before[service], e) })
		was := m.told[service]
		if slices.Equal(long, was.executors) && (len(long) == 0 || time.Since(was.at) < missAgain) {
			all[service] = was
			continue
		}
		d, _ := m.from.Deployment(service)
		if m.tell(ctx, service, workflows.Missing{Gateway: m.gateway, Generation: d.Generation, Executors: long}) == nil {
			was = said{long, time.Now()}
		}
		all[service] = was
	}
	m.before, m.told = now, all
}
