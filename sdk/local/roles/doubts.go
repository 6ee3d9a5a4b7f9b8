package roles

import (
	"maps"
	"sync"
	"time"

	"github.com/harpagon/harpagon/gateway"
)

const (
	// returnWithin is how long executors may take to come again whose connections were cut.
	returnWithin = 700 * time.Millisecond

	// doubtEvery is how often at most the fleet is told of a host.
	doubtEvery = 10 * time.Second
)

// doubts tells of hosts all of whose executors a gateway has lost.
type doubts struct {
	tell func(host string) // must not block

	mu       sync.Mutex
	attached map[string]int       // executors by host
	told     map[string]time.Time // when, by host
}

func newDoubts(tell func(host string)) *doubts {
	return &doubts{tell: tell, attached: map[string]int{}, told: map[string]time.Time{}}
}

func (d *doubts) observer() gateway.Observer {
	return gateway.Observer{
		Attached: func(e gateway.ExecutorInfo) { d.count(e.Host, 1) },
		Detached: func(e gateway.ExecutorInfo) {
			if d.count(e.Host, -1) == 0 && e.Err != nil {
				time.AfterFunc(returnWithin, func() { d.look(e.Host) })
			}
		},
	}
}

// count notes an executor that has come or gone, and returns how many are attached.
func (d *doubts) count(host string, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attached[host] += n
	left := d.attached[host]
	if left == 0 {
		delete(d.attached, host)
	}
	return left
}

// look tells of a host to which none has come back.
func (d *doubts) look(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached[host] > 0 || time.Since(d.told[host]) < doubtEvery {
		return
	}
	now := time.Now()
	maps.DeleteFunc(d.told, func(_ string, at time.Time) bool { return now.Sub(at) >= doubtEvery })
	d.told[host] = now
	d.tell(host)
}
