package world

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// engine adds up the first numbers of its inputs and its version; the second number of a
// vector reports which request it belongs to.
type engine struct{ world *world }

func (engine) Name() string    { return "sum" }
func (engine) Version() string { return "1" }

// chance is true with probability p, by what is named and when.
func (w *world) chance(p float64, what string, about ...any) bool {
	if p == 0 || !w.troubled() {
		return false
	}
	x := hash(w.seed, what, about)
	if float64(x>>11)/(1<<53) >= p {
		return false
	}
	w.history.fault()
	return true
}

func (e engine) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	if err := osutil.SleepTimer(ctx, e.world.load); err != nil {
		return nil, err
	}
	if e.world.chance(e.world.faults.load, "load", m.Module.Name, m.Device, time.Now().UnixNano()) {
		return nil, wire.Errorf(wire.CodeUnavailable, m.Module.Name, "it does not load this time")
	}
	version, err := version(m.Module)
	if err != nil {
		return nil, err
	}
	return &instance{world: e.world, module: m.Module.Name, device: m.Device, version: float32(version), inputs: len(m.Module.Inputs), state: m.Module.State}, nil
}

type instance struct {
	world   *world
	module  string
	device  string
	version float32
	inputs  int
	state   bool
	gone    atomic.Bool // it has crashed
}

func (i *instance) Signature() (s pipelines.Signature) {
	for k := range i.inputs {
		s.Inputs = append(s.Inputs, pipelines.Port{Name: inputName(k), Datatype: wire.FP32, Shape: []int64{2}})
	}
	s.Outputs = []pipelines.Port{{Name: "y", Datatype: wire.FP32, Shape: []int64{2}}}
	if i.state { // the frame that left it, less than zero how many have come, and the version
		three := pipelines.Port{Name: "h", Datatype: wire.FP32, Shape: []int64{3}}
		in, out := three, three
		in.Loop, out.Name = "hn", "hn"
		s.Inputs, s.Outputs = append(s.Inputs, in), append(s.Outputs, three, out)
	}
	return s
}

func inputName(k int) string { return fmt.Sprint("x", k) }

func (*instance) Memory() int64 { return 0 }
func (*instance) Close() error  { return nil }

func (i *instance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	w, f, now := i.world, &i.world.faults, time.Now().UnixNano()
	if i.gone.Load() {
		w.history.violate("module %s on %s is to compute although it has crashed, and was not loaded again", i.module, i.device)
	}
	answers := make([][]wire.Tensor, len(items))
	ids := make([]int, len(items))
	var states [][]float32
	for k, in := range items {
		var before []float32
		if i.state {
			before, _ = in[i.inputs].Float32s()
			states, in = append(states, before), in[:i.inputs]
		}
		sum := i.version
		for _, t := range in {
			v, _ := t.Float32s()
			sum += v[0]
			if id := int(v[1]); ids[k] != 0 && ids[k] != id {
				w.history.violate("module %s was given inputs of requests %d and %d as one", i.module, ids[k], id)
			}
			ids[k] = int(v[1])
		}
		answers[k] = []wire.Tensor{wire.FromFloat32([]float32{sum, float32(ids[k])}, 2)}
		if i.state {
			left := []float32{float32(ids[k]), before[1] - 1, i.version}
			answers[k] = append(answers[k], wire.FromFloat32([]float32{before[0], before[1], i.version}, 3), wire.FromFloat32(left, 3))
		}
	}
	if i.state {
		w.history.given(i.module, int(i.version), ids, states)
	}
	took := w.duration
	if w.chance(f.slow, "slow", i.module, i.device, now) {
		took *= 10
	}
	if err := osutil.SleepTimer(ctx, took); err != nil {
		return nil, wire.Errorf(wire.CodeUnavailable, i.module, "%v", err)
	}
	w.history.compute(i.module, ids)
	switch {
	case w.chance(f.crash, "crash", i.module, i.device, now):
		i.gone.Store(true)
		return nil, wire.Errorf(wire.CodeUnavailable, i.module, "it has crashed")
	case w.chance(f.panics, "panic", i.module, i.device, now):
		i.gone.Store(true)
		panic("an engine with a mistake")
	case w.chance(f.wrong, "wrong", i.module, i.device, now):
		w.history.harm(ids, wire.CodeInternal)
		return answers[:len(answers)-1], nil
	}
	if w.chance(f.hang, "hang", i.module, i.device, now) {
		return nil, i.hang(ctx, hash(w.seed, "heeds", now)%2 == 0)
	}
	for k, id := range ids {
		switch {
		case w.chance(f.hang, "stuck", id):
			w.history.kill(i.module, id)
			return nil, i.hang(ctx, id%2 == 0)
		case w.chance(f.nan, "nan", i.module, id):
			w.history.harm([]int{id}, wire.CodeInternal)
			answers[k][0] = wire.FromFloat32([]float32{float32(math.NaN()), float32(id)}, 2)
		case w.chance(f.poison, "poison", id):
			w.history.harm(ids, wire.CodeInvalid)
			return nil, wire.Errorf(wire.CodeInvalid, i.module, "request %d is not to its taste", id)
		case w.chance(f.poison, "deadly", id):
			w.history.kill(i.module, id)
			i.gone.Store(true)
			return nil, wire.Errorf(wire.CodeUnavailable, i.module, "request %d has killed it", id)
		}
	}
	return answers, nil
}

// hang answers nothing any more; one that heeds its context sees when it is given up.
func (i *instance) hang(ctx context.Context, heeds bool) error {
	i.gone.Store(true)
	if heeds {
		<-ctx.Done()
	} else {
		<-i.world.life.Done()
	}
	return wire.Errorf(wire.CodeUnavailable, i.module, "it hangs")
}
