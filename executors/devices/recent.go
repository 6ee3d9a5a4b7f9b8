package devices

import (
	"sync"
	"time"
)

// Recent is a Lister that asks another no more often than every so long, for
// those who ask for how GPUs are doing: opening the driver takes a while.
func Recent(l Lister, every time.Duration) Lister { return &recent{from: l, every: every} }

type recent struct {
	from  Lister
	every time.Duration

	mu   sync.Mutex
	at   time.Time
	gpus []GPU
	err  error
}

// List is what the other said last, or says now.
func (r *recent) List() ([]GPU, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= r.every {
		r.gpus, r.err = r.from.List()
		r.at = now
	}
	return r.gpus, r.err
}
