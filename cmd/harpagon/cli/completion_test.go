package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	dir := folder(t, map[string]string{"p.hcl": "variable \"rate\" {\n default = 1\n}\nvariable \"slo\" {\n default = \"1s\"\n}\n"})
	d := Deps{Running: func(_ context.Context, state string) ([]string, error) {
		if state != "there" {
			return nil, errors.New("no system runs")
		}
		return []string{"ocr", "traffic", "trains"}, nil
	}}
	for line, want := range map[string]string{
		"va":                         "validate",
		"validate ":                  "hcl :8",
		"plan ":                      "hcl :8",
		"plan . --policy ex":         "exact :4",
		"plan . --cost-model ":       "shared proportional whole :4",
		"plan . --without du":        "dummy :4",
		"plan . --without dummy,re":  "dummy,reassign dummy,reassign:one :4",
		"plan . --split q":           "quantized:10ms :4",
		"simulate . --dispatch e":    "eager :4",
		"simulate . --arrivals g":    "gamma: :6",
		"plan " + dir + " --var r":   "rate= :6",
		"plan " + dir + " --var ":    "rate= slo= :6",
		"reproduce symphony/table":   "symphony/table2 symphony/table4 :4",
		"up . --engine emu":          "emulated :4",
		"status --state there tra":   "traffic trains :4",
		"status --state there ocr t": "traffic trains :4",
		"explain --state there o":    "ocr :4",
		"down --state there o":       "ocr :4",
		"load --state there tr":      "traffic trains :4",
		"infer --state there ocr t":  ":4",
		"status --state elsewhere ":  ":4",
		"schema ver":                 "version :4",
	} {
		t.Run(line, func(t *testing.T) {
			words := append([]string{"__complete"}, strings.Fields(line)...)
			if strings.HasSuffix(line, " ") {
				words = append(words, "")
			}
			got := runWith(t, d, words...)
			require.Equal(t, ExitOK, got.code, got.stderr)
			for _, word := range strings.Fields(want) {
				assert.Contains(t, "\n"+got.stdout, "\n"+word, got.stdout)
			}
			if n := len(strings.Fields(want)); line != "va" {
				assert.Equal(t, n, strings.Count(got.stdout, "\n"), got.stdout)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	got := run(t, "version")
	assert.Equal(t, ExitOK, got.code)
	for _, says := range []string{"harpagon  v1.2.3\n", "commit ", "go        go1.", "embedded  no", "gorgonia", "emulated"} {
		assert.Contains(t, got.stdout, says)
	}
	var r versionReport
	require.NoError(t, json.Unmarshal([]byte(run(t, "version", "--json").stdout), &r))
	assert.Equal(t, "v1.2.3", r.Version)
	assert.Contains(t, r.Engines, "emulated")
	assert.False(t, r.Embedded)
}

// A command that searches is left when it is interrupted and does not end.
func TestInterruptedCommandsAreLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	defer close(waits)
	var d Deps
	d.Stdout, d.Stderr = &strings.Builder{}, &strings.Builder{}
	d.Running = func(context.Context, string) ([]string, error) {
		cancel()
		<-waits // as a search does that does not look
		return nil, nil
	}
	done := make(chan int, 1)
	go func() { done <- Run(ctx, d, []string{"__complete", "status", ""}) }()
	select {
	case code := <-done:
		assert.Equal(t, ExitInterrupted, code)
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	for _, s := range stages(&Deps{}) {
		for _, c := range s.commands {
			if cleansUp(c.Name()) {
				return // the names are those of commands
			}
		}
	}
	t.Fatal("no command cleans up")
}
