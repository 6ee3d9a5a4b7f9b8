package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
)

// edition has all processes, and commands, be of a program; "" is that of the options.
func (f *fleet) edition(program string) {
	for _, m := range append(f.members(), f.temporal(), member{}) {
		f.program[m.name] = program
	}
}

// upgrade replaces every process of the edition before, one at a time, in random order, as
// an operator would upgrade a fleet that serves. With both editions in the fleet, commands
// of both apply changes, some of which are refused.
func (f *fleet) upgrade(ctx context.Context) (done []happened) {
	all := append(f.members(), f.temporal())
	r := rand.New(rand.NewPCG(f.options.seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, m := range all {
		done = append(done, f.one(ctx, fault{"upgrade", m.name, func(ctx context.Context, _ *rand.Rand) error {
			f.signal(m.name, syscall.SIGTERM)
			f.program[m.name] = f.options.harpagon
			if err := f.start(m); err != nil {
				return err
			}
			if !f.whole(ctx) {
				return fmt.Errorf("the fleet is not whole with a new %s", m.name)
			}
			for j, commands := range []string{f.options.before, f.options.harpagon} {
				f.program[""] = commands
				if err := f.refuse(ctx); err != nil {
					return err
				}
				if err := f.change(ctx, 1+i+j); err != nil {
					return err
				}
			}
			return nil
		}}, r))
		if ctx.Err() != nil {
			break
		}
	}
	return done
}
