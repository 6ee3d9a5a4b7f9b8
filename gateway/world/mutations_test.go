package world

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	mutate  = flag.Bool("mutations", false, "find every mutation, which takes minutes")
	mutants = flag.Int("mutation-seeds", 1000, "within how many seeds a mutation has to be found")
	only    = flag.String("mutation", "", "find those only whose names contain this")
)

// mutation is a plausible mistake: a text of a file and its replacement. Production code is not
// touched; a test is built with the changed copy.
type mutation struct{ name, file, old, new string }

var mutations = []mutation{
	{"a lost requeue", "gateway/executor.go",
		"if err.Code != wire.CodeUnavailable || !g.queue.Requeue(&it.Item, untouched) {",
		"if err.Code != wire.CodeUnavailable {"},
	{"a request that kills engines is queued for ever", "dispatcher/dispatcher.go",
		"if !untouched && it.Attempts > 0 || it.refusals >= maxRefusals {", "if it.refusals >= maxRefusals {"},
	{"a doubled answer", "executors/session.go",
		"	case crash == nil:\n		lanes.release(c)\n", "	case crash == nil:\n		lanes.release(c)\n		_ = s.send(&reply.message)\n"},
	{"a stale epoch is computed", "wire/attach/assembly.go",
		"if b.Part.Epoch < a.epoch {", "if false {"},
	{"a slot is not returned after a failure", "dispatcher/lanes.go",
		"	at := s.laneOf(b, r.Away)\n	if at < 0 {", "	at := s.laneOf(b, r.Away)\n	if at < 0 || r.Failed > 0 && !r.Away {"},
	{"an engine that is back gets no work", "dispatcher/lanes.go",
		"if l := &s.lanes[i]; l.exec == e && l.away {", "if l := &s.lanes[i]; l.exec == nil && l.away {"},
	{"an owner that was replaced is obeyed", "dispatcher/link.go",
		"	if s.link != l {\n		return nil\n	}\n	it := s.take(id)", "	it := s.take(id)"},
	{"a new owner does not receive what waits", "dispatcher/link.go",
		"for _, it := range s.waiting() {\n		l.arrive(s, it, false, now)\n	}", "_ = now"},
	{"no dispatcher follows a lost owner", "dispatcher/server/server.go",
		"	case s.options.Orphaned != nil:\n		s.options.Orphaned(service, epoch)\n", ""},
	{"what is withdrawn stays queued", "dispatcher/dispatcher.go",
		"if it.state != queued {\n		return\n", "if it.state != queued || it.id != 0 {\n		return\n"},
	{"items of a gateway that is gone stay queued", "dispatcher/server/server.go",
		"				s.dispatcher.Cancel(&it.Item)\n			}\n		}\n	}\n	for _, r := range p.requests {", "				_ = it\n			}\n		}\n	}\n	for _, r := range p.requests {"},
	{"executors wait for a gateway that is gone", "dispatcher/server/server.go",
		"	for _, c := range controls {\n		c.skipPartsOf(p)\n	}\n", "	_ = controls\n"},
	{"an executor goes that another gateway needs", "dispatcher/server/server.go",
		"if !s.released[executor][p] && p.needs(executor) {", "if p == nil {"},
	{"a batch that a gateway lacks the executor for is forgotten", "dispatcher/link.go",
		"		for _, it := range b.Items {\n			d.again(it, true)\n		}\n	default:", "	default:"},
	{"late counts as in time", "gateway/infer.go",
		"r.Deadline != 0 && now > r.Deadline {", "r.Deadline != 0 && now > 2*r.Deadline {"},
	{"answers of a batch are mixed up", "gateway/executor.go",
		"it.Gather(e.route(it.Node), m.Items[first:row])", "it.Gather(e.route(it.Node), m.Items[:row-first])"},
	{"answers go to the wrong requests after one has failed", "executors/batch.go",
		"			w.answers[i] = answers[0]\n			continue", "			w.answers[0] = answers[0]\n			continue"},
	{"generations share what they must not", "scheduler/placement/reconcile.go",
		`digest, m.Function, m.Model,`, `digest, m.Function, "",`},
	{"executors are released under requests", "gateway/install.go",
		"return !g.wanted(pipelineName, executors) }", "return true }"},
	{"a released executor is not dismissed", "gateway/install.go",
		"		e.part(dismiss)\n", ""},
	{"an engine that is lost is not loaded again", "executors/session.go",
		"err = errors.Join(err, s.reload(ctx, run, c, crash))", "err = errors.Join(err)"},
	{"a lost stream loses what its executor held", "gateway/executor.go",
		"	g.unregister(e)\n	e.lost(cause)\n", "	g.unregister(e)\n"},
	{"an end is counted twice", "gateway/infer.go",
		"	p.shares.Leave(tenant, &r.Share, lost, now)\n	if o := g.options.Observer.RequestEnd; o != nil {\n", "	p.shares.Leave(tenant, &r.Share, lost, now)\n	if o := g.options.Observer.RequestEnd; o != nil {\n		if info.Outcome == Cancelled {\n			o(info)\n		}\n"},
	{"what is cancelled is not counted", "gateway/infer.go",
		"	p.stats.End(now, info.Outcome, info.Elapsed)\n	if f", "	if info.Outcome != Cancelled {\n		p.stats.End(now, info.Outcome, info.Elapsed)\n	}\n	if f"},
	{"what has ended stays in flight", "gateway/infer.go",
		"	defer p.accepted.Add(-1)\n", "	defer p.accepted.Add(0)\n"},
	{"what a dispatcher refuses stays in flight", "gateway/metrics/metrics.go",
		"if !i.Unaccepted { // a", "if !i.Unaccepted && i.Outcome != gateway.Refused { // a"},
	{"an owner follows by its clock alone", "dispatcher/server/server.go",
		"s.Own(\"\", s.claimAfter(epoch))", "s.Own(\"\", s.claimAfter(uint64(s.options.Clock().UnixMilli())<<claimBits))"},
	{"a file that could not be written whole is kept", "executors/content/store.go",
		"	case err != nil:\n		return f.full(file, err)\n	case got != file.Digest:", "	case err == nil && got != file.Digest:"},
	{"a generation that is older is installed", "gateway/install.go",
		"before = p.current.Load(); gr.Deployment.Age().Before(before.Deployment.Age()) {", "before = p.current.Load(); before.Deployment.Generation > gr.Deployment.Generation+9 {"},
	{"generations decide between lives of a service", "scheduler/placement/placement.go",
		"	return a.Life < b.Life\n", "	return a.Generation < b.Generation\n"},
	{"numbers of modules are not given back", "dispatcher/link.go",
		"		if u.given {\n			at :=", "		if u.given && n.of == nil {\n			at :="},
	{"a deletion that comes late removes what was applied since", "gateway/install.go",
		"return age != (placement.Age{}) && d.Life >= age.Life &&", "return age != (placement.Age{}) && d.Life < age.Life &&"},
	{"two frames of a stream have the same state", "scheduler/dispatch/admission/turns.go",
		"		if !b.over {\n			return state, false\n", "		if s == nil {\n			return state, false\n"},
	{"a frame that waited has no state", "gateway/graph_request.go",
		"		it.begins(h.State)\n", ""},
	{"a frame that came back has another's state", "gateway/executor.go",
		"	it.Starts(nil)\n	if err", "	it.Starts(nil)\n	it.state = nil\n	if err"},
	{"what was deleted is installed again", "gateway/install.go",
		"; ok && d.Age().Before(since) {", "; ok && since.Life < 0 {"},
}

const root = "../.."

// mutated is the changed text of a mutation's file.
func (m *mutation) mutated(t *testing.T) string {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), m.old), "%s: the text of mutation %q has changed; change it here, too", m.file, m.name)
	return strings.Replace(string(text), m.old, m.new, 1)
}

// TestMutationsFit holds that every mutation still has its place.
func TestMutationsFit(t *testing.T) {
	for _, m := range mutations {
		m.mutated(t)
	}
}

var found = regexp.MustCompile(`(?s)seed (\d+): (.*?)\n`)

// TestMutations builds the test with each mistake, and holds that seeds find it.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("it takes minutes; run it with -mutations")
	}
	for _, m := range mutations {
		if !strings.Contains(m.name, *only) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			changed := filepath.Join(dir, "changed.go")
			require.NoError(t, os.WriteFile(changed, []byte(m.mutated(t)), 0o600))
			original, err := filepath.Abs(filepath.Join(root, m.file))
			require.NoError(t, err)
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
			require.NoError(t, err)
			at := filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(at, overlay, 0o600))
			program := filepath.Join(dir, "world.test")
			text, err := exec.Command("go", "test", "-c", "-tags", "noserver", "-vet", "off", "-overlay", at, "-o", program, ".").CombinedOutput()
			require.NoError(t, err, "%s", text)
			text, err = exec.Command(program, "-test.run", "TestSeeds", "-test.failfast", "-test.timeout", "10m", "-seeds", fmt.Sprint(*mutants)).CombinedOutput()
			require.Error(t, err, "%d seeds have not found it", *mutants)
			seed := found.FindSubmatch(text)
			require.NotNil(t, seed, "it has failed otherwise: %s", text)
			t.Logf("found by seed %s: %s", seed[1], seed[2])
		})
	}
}
