package main

import (
	"context"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
)

const (
	objective = 300 * time.Millisecond // of the declaration
	deadline  = 5 * time.Second        // of a request
)

// outcome of one request.
type outcome struct {
	sent  time.Time
	took  time.Duration
	err   error
	wrong bool
}

type load struct {
	addresses []string
	mu        sync.Mutex
	all       []outcome
	begun     int
}

func newLoad(addresses []string) *load { return &load{addresses: addresses} }

// run asks at the rate until ctx ends, and waits for all answers. The load is open:
// nobody waits for the answer before.
func (l *load) run(ctx context.Context, rate float64) error {
	client, err := sdk.Dial(ctx, l.addresses...)
	if err != nil {
		return err
	}
	defer client.Close()
	var under sync.WaitGroup
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second)))))
		l.begun++
		under.Go(func() { l.ask(client, n) })
	}
	under.Wait()
	return nil
}

func (l *load) ask(client *sdk.Client, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	x := make([]float32, 16)
	x[0], x[1] = float32(n), float32(n>>20)
	in := sdk.Float32(x, 16)
	o := outcome{sent: time.Now()}
	r, err := client.Infer(ctx, "gameday", sdk.Inputs{"frame": in})
	o.took, o.err = time.Since(o.sent), err
	if err == nil {
		// Every module answers with a checksum of what it was given.
		first := emulated.Checksum([]wire.Tensor{in})
		want := emulated.Checksum([]wire.Tensor{sdk.Float32([]float32{first}, 1)})
		got, err := r.Float32s("label")
		o.wrong = err != nil || len(got) != 1 || got[0] != want
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, o)
}
