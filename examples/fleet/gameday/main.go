// Command gameday runs a fleet of processes on this machine, roles apart and Temporal
// behind them, offers it a load of requests whose answers can be distinguished, does to it
// whatever may happen to a fleet, one fault after the other, and ends with a verdict: how
// many requests were sent and ended, and for how long each fault was felt. What it starts
// it ends.
//
//	go build -o bin/harpagon ./cmd/harpagon
//	go run ./examples/fleet/gameday -harpagon bin/harpagon -for 30m -postgres
//
// Processes are killed (kill -9), after a change was refused, and started again, or stopped (SIGSTOP) and continued;
// connections, all of which go through relays of this program, are cut, refused, or stand
// still; Temporal and its database go away; workflows of every type are cancelled, terminated,
// reset, and their activities paused, as in Temporal's UI; disks are full, may only be read, or
// have been written over. Disks need root, and are left out without.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.harpagon, "harpagon", "bin/harpagon", "the program")
	flag.StringVar(&o.before, "before", "", "the program of an earlier edition: instead of faults, a fleet of it is upgraded process by process, in an order of chance")
	flag.StringVar(&o.temporal, "temporal", "", "the program that runs Temporal, where harpagon is built without it")
	flag.StringVar(&o.folder, "folder", "examples/fleet/gameday", "of the declaration")
	flag.BoolVar(&o.postgres, "postgres", false, "keep Temporal's state in PostgreSQL, which must be installed, and not in a file")
	flag.DurationVar(&o.lasts, "for", 30*time.Minute, "how long to do things to the fleet")
	flag.Float64Var(&o.rate, "rate", 300, "requests per second")
	flag.DurationVar(&o.calm, "calm", 3*time.Second, "between faults, and before the first and after the last (5 s at least)")
	flag.DurationVar(&o.away, "away", 30*time.Second, "how long all of Temporal is away")
	flag.StringVar(&o.only, "only", "", "a regular expression: only faults whose name it matches, such as ^kill|gateway")
	flag.Uint64Var(&o.seed, "seed", 1, "of the order of faults")
	flag.IntVar(&o.port, "port", 18400, "the first of a hundred that are listened on")
	flag.BoolVar(&o.list, "list", false, "print the names of all faults and do nothing")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	harpagon, before, temporal, folder, only string
	rate                                     float64
	lasts, calm, away                        time.Duration
	seed                                     uint64
	port                                     int
	postgres, list, keep                     bool
}

func (o *options) run(ctx context.Context) error {
	f, err := newFleet(o)
	if err != nil {
		return err
	}
	faults, err := f.faults()
	if err != nil {
		return err
	}
	if o.list {
		for _, one := range faults {
			fmt.Println(one.name())
		}
		return nil
	}
	defer f.end()
	f.edition(o.before)
	if err := f.begin(ctx); err != nil {
		return err
	}
	l := newLoad(f.gateways())
	l.every = o.before != ""
	loading, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() { over <- l.run(loading, o.rate) }()
	wait(ctx, max(5*time.Second, o.calm))
	var done []happened
	if o.before == "" {
		done = f.happen(ctx, faults)
	} else {
		done = f.upgrade(ctx)
	}
	wait(ctx, max(5*time.Second, o.calm))
	stop()
	if err := <-over; err != nil {
		return err
	}
	return l.verdict(done, f.conserved(ctx))
}

// wait sleeps, and reports whether it has slept all of it.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
