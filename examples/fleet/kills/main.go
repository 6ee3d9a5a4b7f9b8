// Command kills runs a fleet of processes on this machine, offers it a load of requests
// whose answers can be told apart, takes its processes away one after the other, and
// says what that cost. What it starts it ends.
//
//	go build -o bin/harpagon ./cmd/harpagon
//	go run ./examples/fleet/kills -harpagon bin/harpagon -kills 60
//
// A process is killed (kill -9) and started again after two seconds, or stopped
// (SIGSTOP) for two to eight seconds and continued.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.harpagon, "harpagon", "bin/harpagon", "the program")
	flag.StringVar(&o.temporal, "temporal", "", "the program that runs Temporal, where harpagon is built without it")
	flag.StringVar(&o.folder, "folder", "examples/fleet/kills", "of the declaration")
	flag.IntVar(&o.kills, "kills", 60, "how many processes to take away")
	flag.Float64Var(&o.rate, "rate", 300, "requests per second")
	flag.DurationVar(&o.every, "every", 6*time.Second, "from one to the next")
	flag.StringVar(&o.roles, "roles", "gateway,dispatcher,worker,control", "that are taken away, in turn")
	flag.BoolVar(&o.stops, "stops", true, "stop every other one instead of killing it")
	flag.IntVar(&o.port, "port", 18400, "the first of those that are listened on")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs")
	flag.Parse()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	harpagon, temporal, folder, roles string
	kills, port                       int
	rate                              float64
	every                             time.Duration
	stops, keep                       bool
}

func (o *options) run(ctx context.Context) (err error) {
	f, err := startFleet(ctx, o)
	if err != nil {
		return err
	}
	defer f.end()
	l := newLoad(f.gateways())
	ctx, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- l.run(ctx, o.rate) }()
	time.Sleep(5 * time.Second) // calm
	losses := f.takeAway(o)
	time.Sleep(5 * time.Second)
	stop()
	if err := <-over; err != nil {
		return err
	}
	return l.verdict(losses)
}
