package workflows

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

var (
	linearSeeds = flag.Int("linear", 20, "how many histories of control operations to play")
	linearFrom  = flag.Uint64("linear.from", 1, "the first seed of these histories")
)

// TestControlIsLinearizable lets several callers change one service at once, look at it,
// drain and delete it, while changes, drains and deletions take their time and the
// workflow continues as new, and checks that all were answered as if they had come
// one after the other.
func TestControlIsLinearizable(t *testing.T) {
	for seed := *linearFrom; seed < *linearFrom+uint64(*linearSeeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			checkLinear(t, playControl(t, seed))
		})
	}
}

func checkLinear(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	model := controlModel()
	// Nothing but a search that takes for ever comes near the limit.
	result, _ := porcupine.CheckOperationsVerbose(model, history, 5*time.Minute)
	if !assert.Equal(t, porcupine.Ok, result, "no order of these operations explains their answers") {
		start := history[0].Call
		for _, o := range history {
			t.Logf("caller %d, %v to %v: %s", o.ClientId, time.Duration(o.Call-start), time.Duration(o.Return-start), model.DescribeOperation(o.Input, o.Output))
		}
	}
}

// request is one call on its way to the service.
type request struct {
	operation
	caller          int
	sent, delivered time.Time
	back            time.Duration // the answer's way
	done            bool
}

// play is a service in use.
type play struct {
	t        *testing.T
	random   *rand.Rand
	world    *world
	requests []*request // by delivery
	history  []porcupine.Operation
	now      time.Time
}

// playControl draws the calls of a few callers, each of whom waits neither for others
// nor long for itself, and returns what was answered.
func playControl(t *testing.T, seed uint64) []porcupine.Operation {
	p := &play{t: t, random: rand.New(rand.NewPCG(seed, 0)), world: newWorld(16), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	end := p.now
	for caller := range 4 {
		at := p.now.Add(p.draw(10 * time.Second))
		for range 6 {
			r := &request{operation: p.operation(), caller: caller, sent: at, back: p.draw(time.Second)}
			r.delivered = at.Add(p.draw(time.Second))
			p.requests = append(p.requests, r)
			at = r.delivered.Add(2*time.Second + p.draw(15*time.Second)) // its answer is there by then
		}
		if at.After(end) {
			end = at
		}
	}
	for range p.random.IntN(4) {
		at := p.now.Add(time.Duration(p.random.Int64N(int64(end.Sub(p.now)))))
		p.requests = append(p.requests, &request{operation: operation{name: []string{opLost, opBad}[p.random.IntN(2)]}, caller: 4, sent: at, delivered: at, back: 1})
	}
	for i, name := range []string{opSettled, UpdateDelete} {
		at := end.Add(time.Duration(i+1) * time.Hour)
		p.requests = append(p.requests, &request{operation: operation{name: name}, sent: at, delivered: at.Add(1), back: 1})
	}
	slices.SortStableFunc(p.requests, func(a, b *request) int { return a.delivered.Compare(b.delivered) })
	p.live()
	return p.history
}

// draw is a time up to the longest, often a short one.
func (p *play) draw(longest time.Duration) time.Duration {
	return 1 + time.Duration(float64(longest)*p.random.Float64()*p.random.Float64())
}

func (p *play) operation() operation {
	o := operation{name: []string{
		UpdateApply, UpdateApply, UpdateApply, UpdateRescale, UpdateRollback, UpdateRollback, UpdateDrain, UpdateDelete,
		QueryStatus, QueryStatus, QueryStatus, QueryStatus,
	}[p.random.IntN(12)]}
	o.rate = []float64{20, 30, 40, tooMuch}[p.random.IntN(4)]
	o.canary = p.random.IntN(2) == 0
	if p.random.IntN(3) == 0 {
		o.expect = p.random.IntN(8) - 1
	}
	if p.random.IntN(2) == 0 {
		o.to = p.random.IntN(6)
	}
	return o
}

// live runs the service's workflow, again and again, until nobody calls any more.
func (p *play) live() {
	var state *State
	for {
		i := slices.IndexFunc(p.requests, func(r *request) bool { return !r.done })
		if i < 0 {
			return
		}
		r := p.requests[i]
		switch {
		case state != nil:
		case r.name == UpdateApply: // starts the workflow
			state = &State{Kind: scheduler.KindPipeline, Name: "traffic", Settings: Settings{ContinueAfter: 1 + p.random.IntN(8)}}
		case r.name == opLost || r.name == opBad:
			r.done = true
			continue
		default:
			p.answer(r, answer{refused: absent}, r.delivered)
			continue
		}
		if r.delivered.After(p.now) && state.Generation == 0 {
			p.now = r.delivered
		}
		state = p.run(state)
	}
}

// run runs the workflow once; the state is what it continues with, nil after it was
// deleted.
func (p *play) run(state *State) *State {
	rig := newRig(p.t, p.world)
	rig.SetStartTime(p.now)
	rig.continued = state.Serving != nil
	for name, f := range map[string]any{
		"Prepare": p.world.prepare, "Install": p.world.install, "Release": p.world.release, "Remove": p.world.remove,
	} {
		rig.OnActivity(name, mock.Anything, mock.Anything).Return(f).After(p.draw(20 * time.Second))
	}
	for _, r := range p.requests {
		if !r.done {
			rig.at(max(r.delivered.Sub(p.now), time.Millisecond), func() { p.deliver(rig, r) })
		}
	}
	rig.ExecuteWorkflow(TypeService, *state)
	require.True(p.t, rig.IsWorkflowCompleted())
	p.now = rig.Now()
	err := rig.GetWorkflowError()
	if err == nil {
		return nil
	}
	var again *workflow.ContinueAsNewError
	require.ErrorAs(p.t, err, &again)
	next := new(State)
	require.NoError(p.t, fromPayloads(again, next))
	return next
}

// deliver hands a call to the workflow. One that the workflow does not take any more,
// because it ends, is delivered to the next run.
func (p *play) deliver(rig *rig, r *request) {
	if r.name == opLost || r.name == opBad {
		p.disturb(rig, r)
		return
	}
	if r.name == QueryStatus || r.name == opSettled {
		s := rig.status()
		if s.Phase == Deleted {
			p.answer(r, answer{refused: absent}, rig.Now())
			return
		}
		p.answer(r, answer{seen: look(s)}, rig.Now())
		return
	}
	end := func(err error, reply ChangeReply) {
		a := answer{generation: reply.Generation, unchanged: reply.Unchanged}
		if err != nil {
			a = refusal(err)
		}
		p.answer(r, a, rig.Now())
	}
	rig.updates++
	rig.UpdateWorkflow(r.name, fmt.Sprint(r.name, rig.updates), &testsuite.TestUpdateCallback{
		OnReject: func(err error) { end(err, ChangeReply{}) },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			reply, _ := v.(ChangeReply)
			end(err, reply)
		},
	}, r.argument())
}

// disturb loses the host that there is, and another comes for it; or has a gateway see
// that what is tried does badly.
func (p *play) disturb(rig *rig, r *request) {
	r.sent = rig.Now()
	switch s := rig.status(); {
	case r.name == opLost:
		p.world.change(func() {
			old := p.world.fleet.Hosts[0].Name
			p.world.fleet.Version++
			p.world.fleet.Hosts = []activities.HostInfo{host(old+"+", 16)}
			rig.SignalWorkflow(SignalFleetChanged, FleetChange{Lost: []string{old}})
		})
	case s.Trial == nil || s.Phase != Trying:
		r.done = true
		return
	default:
		rig.SignalWorkflow(SignalMeasures, autoscale.Measures{
			Pipeline: "traffic", Gateway: "g1", Generation: s.Serving, Offered: 20, Attainment: 1, To: rig.Now(),
			Canary: &rollout.Seen{Generation: s.Requested.Generation, Stable: rollout.Tally{Requests: 1000, InTime: 1000}, Canary: rollout.Tally{Requests: 100, InTime: 10}},
		})
	}
	p.answer(r, answer{}, rig.Now())
}

// answer notes how a call ended.
func (p *play) answer(r *request, a answer, at time.Time) {
	r.done = true
	p.history = append(p.history, porcupine.Operation{
		ClientId: r.caller, Input: r.operation, Call: r.sent.UnixNano(), Output: a, Return: at.Add(r.back).UnixNano(),
	})
}

// refusal is what a refusal means.
func refusal(err error) answer {
	text := err.Error()
	for _, known := range []string{deleting, "has no spec yet", "has served no other declaration", "keeps no declaration", "has the declaration of"} {
		if strings.Contains(text, known) {
			return answer{refused: known}
		}
	}
	if _, after, ok := strings.Cut(text, "is at generation "); ok {
		a := answer{refused: elsewhere}
		if _, err := fmt.Sscan(strings.TrimSuffix(strings.Fields(after)[0], ","), &a.generation); err == nil {
			return a
		}
	}
	return answer{refused: text}
}

// look is what the model foretells of a status.
func look(s Status) view {
	v := view{Generation: s.Generation, Serving: s.Serving, Asked: s.Generation, Rate: s.Rate}
	if s.Requested != nil {
		v.Asked = s.Requested.Generation
	}
	for _, d := range s.Declared {
		v.Declared = append(v.Declared, declared{d.Generation, d.Current})
	}
	return v
}

// TestCheckerOfControl shows histories that no service may have, and some that it may.
func TestCheckerOfControl(t *testing.T) {
	const second = int64(time.Second)
	one := func(from, to int64, o operation, a answer) porcupine.Operation {
		return porcupine.Operation{Input: o, Call: from * second, Output: a, Return: to * second}
	}
	apply := func(rate float64) operation { return operation{name: UpdateApply, wish: wish{rate: rate}} }
	status, settled := operation{name: QueryStatus}, operation{name: opSettled}
	remove, drain, back := operation{name: UpdateDelete}, operation{name: UpdateDrain}, operation{name: UpdateRollback}
	serves := func(generation, asked int, rate float64, all ...declared) answer {
		return answer{seen: view{Generation: generation, Serving: generation, Asked: asked, Rate: rate, Declared: all}}
	}
	first := one(0, 1, apply(20), answer{generation: 1})
	for name, c := range map[string]struct {
		legal bool
		then  []porcupine.Operation
	}{
		"served":                      {true, []porcupine.Operation{one(2, 3, settled, serves(1, 1, 20, declared{1, true}))}},
		"a change that is lost":       {false, []porcupine.Operation{one(2, 3, settled, answer{seen: view{Generation: 1, Asked: 1, Rate: 20}})}},
		"a generation given twice":    {false, []porcupine.Operation{one(2, 3, apply(30), answer{generation: 1})}},
		"a generation left out":       {false, []porcupine.Operation{one(2, 3, apply(30), answer{generation: 3})}},
		"two at once":                 {true, []porcupine.Operation{one(2, 9, apply(30), answer{generation: 3}), one(3, 4, apply(40), answer{generation: 2})}},
		"two at once, the same":       {false, []porcupine.Operation{one(2, 9, apply(30), answer{generation: 2}), one(3, 4, apply(40), answer{generation: 2})}},
		"a status of before":          {false, []porcupine.Operation{one(2, 3, apply(30), answer{generation: 2}), one(4, 5, status, serves(1, 1, 20, declared{1, true}))}},
		"a status of before, at once": {true, []porcupine.Operation{one(2, 6, apply(30), answer{generation: 2}), one(4, 5, status, serves(1, 1, 20, declared{1, true}))}},
		"a rate of another":           {false, []porcupine.Operation{one(2, 3, apply(30), answer{generation: 2}), one(4, 5, settled, serves(2, 2, 20, declared{1, true}, declared{2, true}))}},
		"a condition overlooked": {false, []porcupine.Operation{
			one(2, 3, apply(30), answer{generation: 2}), one(4, 5, operation{name: UpdateApply, wish: wish{rate: 40}, expect: 1}, answer{generation: 3})}},
		"back to what has not served":  {false, []porcupine.Operation{one(2, 3, back, answer{generation: 2})}},
		"serving after it was drained": {false, []porcupine.Operation{one(2, 3, drain, answer{generation: 1}), one(4, 5, settled, serves(1, 1, 20, declared{1, true}))}},
		"drained and there already":    {false, []porcupine.Operation{one(2, 3, drain, answer{generation: 1}), one(4, 5, apply(20), answer{generation: 1, unchanged: true})}},
		"taken in and deleted": {false, []porcupine.Operation{
			one(2, 3, remove, answer{generation: 1}), one(4, 5, apply(30), answer{generation: 2}), one(6, 7, status, answer{refused: absent})}},
		"deleted and applied": {true, []porcupine.Operation{one(2, 3, remove, answer{generation: 1}), one(4, 5, apply(30), answer{generation: 1})}},
	} {
		result := porcupine.CheckOperations(controlModel(), append([]porcupine.Operation{first}, c.then...))
		assert.Equal(t, c.legal, result, name)
	}
}

// controlModel is the model as porcupine wants it.
func controlModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{sequential{absent: true}} },
		Step: func(state, in, out any) (all []any) {
			for _, s := range state.(sequential).reached() {
				for _, next := range s.step(in.(operation), out.(answer)) {
					all = append(all, next)
				}
			}
			return all
		},
		Equal:             func(a, b any) bool { return reflect.DeepEqual(a, b) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
	return m.ToModel()
}
