package cli

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

func answerOf(kinds ...string) map[string]wire.Tensor {
	boxes := make([]float32, 4*len(kinds))
	colours := make([]string, len(kinds))
	for i := range kinds {
		copy(boxes[4*i:], []float32{0, 0, 10, 10})
		colours[i] = "red"
	}
	return map[string]wire.Tensor{
		"boxes": wire.FromFloat32(boxes, int64(len(kinds)), 4),
		"kinds": wire.FromStrings(kinds, int64(len(kinds))), "colours": wire.FromStrings(colours, int64(len(kinds))),
	}
}

// sent is a run of n requests of which some came late: those of one stretch of
// time where burst, or spread over all.
func sent(n, late int, burst bool) (*demoRun, *load.Report) {
	r := newDemoRun(100*time.Millisecond, 10*time.Second)
	frame := traffic.Frame{Name: "one.png", Truth: []scene.Object{{Kind: "bus", Colour: "red", Box: [4]float32{0, 0, 10, 10}, Visible: 1}}}
	for i := range n {
		took := time.Millisecond
		if burst && i < late || !burst && late > 0 && i%(n/late) == 0 {
			took = time.Second
		}
		r.add(frame, time.Duration(i)*r.length/time.Duration(n), took, answerOf("bus"), nil)
	}
	return r, &load.Report{Requests: n, Completed: n - late, Late: late, Attainment: float64(n-late) / float64(n), Errors: map[string]int{}}
}

func TestDemoVerdict(t *testing.T) {
	quiet := executors.ProcessorUse{Elapsed: time.Second, Cores: 2, Own: 0.5, Others: 0.02}
	loud := executors.ProcessorUse{Elapsed: time.Second, Cores: 2, Own: 0.5, Others: 0.9}
	for name, test := range map[string]struct {
		n, late int
		burst   bool
		use     executors.ProcessorUse
		fails   bool
		says    string
	}{
		"all in time":                         {200, 0, false, quiet, false, "attainment 1.0000 of 0.99 expected; others used 0.0 of 2 cores meanwhile"},
		"all in time beside others":           {200, 0, false, loud, false, "others used 0.9 of 2 cores meanwhile"},
		"a few late":                          {200, 5, false, quiet, false, "within what chance explains"},
		"a stall":                             {200, 20, true, quiet, false, "within what chance explains"},
		"a fifth late":                        {1000, 200, false, quiet, true, "less than chance and others explain"},
		"a fifth late beside others":          {1000, 200, false, loud, false, "what others use of the machine may be why"},
		"nothing in time":                     {200, 200, false, quiet, true, "less than chance and others explain"},
		"nothing in time, whatever others do": {200, 200, false, loud, true, "less than chance and others explain"},
		"machine not known":                   {1000, 200, false, executors.ProcessorUse{}, true, "attainment 0.8000 of 0.99 expected: less"},
		"hardly anything sent":                {3, 1, false, quiet, false, "too few requests to judge"},
	} {
		t.Run(name, func(t *testing.T) {
			r, report := sent(test.n, test.late, test.burst)
			text, failed := verdict(r.findings(report, demoTarget, test.use))
			assert.Equal(t, test.fails, failed, text)
			assert.Contains(t, strings.Join(strings.Fields(text), " "), test.says)
			for line := range strings.Lines(text) {
				assert.LessOrEqual(t, len([]rune(line)), lineWidth+1)
			}
		})
	}
}

func TestDemoVerdictOnAnswersAndRequests(t *testing.T) {
	frame := traffic.Frame{Name: "one.png"}
	for says, spoil := range map[string]func(r *demoRun, report *load.Report){
		"answers differ from one time to the next for one.png": func(r *demoRun, _ *load.Report) { r.add(frame, 0, 0, answerOf("truck"), nil) },
		"1 answer could not be read":                           func(r *demoRun, _ *load.Report) { r.add(frame, 0, 0, nil, nil) },
		"requests failed for other reasons than time: 2 internal": func(_ *demoRun, report *load.Report) {
			report.Errors["internal"] = 2
			report.Completed -= 2
		},
		"1 request lost": func(_ *demoRun, report *load.Report) { report.Requests++ },
		"answers are wrong: only 5 %": func(r *demoRun, _ *load.Report) {
			r.report = traffic.Report{Objects: 20, Found: 20, Right: 1}
		},
		"no picture was answered": func(r *demoRun, _ *load.Report) { clear(r.answers) },
	} {
		t.Run(says, func(t *testing.T) {
			r, report := sent(500, 0, false)
			spoil(r, report)
			text, failed := verdict(r.findings(report, demoTarget, executors.ProcessorUse{}))
			assert.True(t, failed)
			assert.Contains(t, text, "FAILED  "+says)
		})
	}
	t.Run("late and refused requests are no failures", func(t *testing.T) {
		r, report := sent(500, 0, false)
		r.add(frame, -1, 0, nil, errors.New("deadline at vehicle"))
		report.Errors["deadline"], report.Completed = 1, report.Completed-1
		_, failed := verdict(r.findings(report, demoTarget, executors.ProcessorUse{}))
		assert.False(t, failed)
		assert.EqualError(t, r.first, "deadline at vehicle")
	})
}

func TestDemoUsesAFolderOfItsOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var one, two demoFlags
	removeOne, err := one.folder()
	require.NoError(t, err)
	removeTwo, err := two.folder()
	require.NoError(t, err)
	assert.NotEqual(t, one.options.StateDir, two.options.StateDir)
	two.keep = true
	removeOne()
	removeTwo()
	assert.NoDirExists(t, one.options.StateDir)
	assert.DirExists(t, two.options.StateDir, "it was to be kept")

	named := demoFlags{}
	named.options.StateDir = t.TempDir()
	remove, err := named.folder()
	require.NoError(t, err)
	remove()
	assert.DirExists(t, named.options.StateDir)
	_ = os.Remove(two.options.StateDir)
}
