package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	for _, name := range []string{"init", "fmt", "validate", "engines", "plan"} {
		got := run(t, name, "--help")
		assert.Equal(t, ExitOK, got.code)
		assert.Empty(t, got.stderr)
		golden(t, "help/"+name+".txt", got.stdout)
	}
}

func TestHelpFollowsTheJourney(t *testing.T) {
	bare, help := run(t), run(t, "--help")
	assert.Equal(t, help, bare)
	assert.Equal(t, ExitOK, help.code)
	last := 0
	for _, word := range []string{"Declare a pipeline", "  init ", "  fmt ", "  validate ", "Know what it will take", "  plan ", "Exit codes"} {
		at := strings.Index(help.stdout, word)
		assert.Greater(t, at, last, "%q in\n%s", word, help.stdout)
		last = at
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, s := range stages(&Deps{}) {
		for _, c := range s.commands {
			assert.NotEmpty(t, c.Short, c.Name())
			assert.Contains(t, c.Example, "harpagon "+c.Name(), "%s has no example", c.Name())
		}
	}
}

func TestVersionFlag(t *testing.T) {
	assert.Equal(t, result{ExitOK, "harpagon version v1.2.3\n", ""}, run(t, "--version"))
}

func TestWrongUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"plam"}, []string{`unknown command "plam"`, "Did you mean this?\n\tplan", "harpagon --help"}},
		{[]string{"validate"}, []string{"name an HCL file or a folder", "harpagon validate --help"}},
		{[]string{"plan"}, []string{"name an HCL file or a folder", "harpagon plan --help"}},
		{[]string{"plan", "--jsn", "."}, []string{"unknown flag: --jsn", "harpagon plan --help"}},
		{[]string{"plan", ".", "--without", "luck"}, []string{`no step "luck"`, "dummy, reassign"}},
		{[]string{"plan", ".", "--policy", "luck"}, []string{`no policy "luck"`, "harpagon"}},
		{[]string{"plan", ".", "--cost-model", "luck"}, []string{`no cost model "luck"`}},
		{[]string{"plan", ".", "--split", "luck"}, []string{"luck", "quantized"}},
		{[]string{"validate", ".", "--var", "rate"}, []string{"--var rate sets nothing", "--var name=value"}},
		{[]string{"init", "a", "b"}, []string{"harpagon init --help"}},
		{[]string{"fmt", "-", "a.hcl"}, []string{"standard input"}},
		{[]string{"fmt", "nowhere.hcl"}, []string{"nowhere.hcl does not exist"}},
	} {
		got := run(t, c.args...)
		assert.Equal(t, ExitError, got.code, c.args)
		assert.Empty(t, got.stdout, c.args)
		for _, text := range c.says {
			assert.Contains(t, got.stderr, text, c.args)
		}
		assert.Equal(t, 1, strings.Count(got.stderr, "harpagon: "), "printed once: %s", got.stderr)
		assert.NotContains(t, got.stderr, "Usage:", c.args)
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{ErrReported, 1, ""},
		{ErrChanges, 2, ""},
		{errors.New("the port is in use"), 1, "harpagon: the port is in use\n"},
		{fmt.Errorf("harpagon: %w", errors.New("the port is in use")), 1, "harpagon: the port is in use\n"},
	} {
		var b strings.Builder
		assert.Equal(t, c.code, Report(&b, c.err))
		assert.Equal(t, c.text, b.String())
	}
}

func TestWrongUseNamesTheCommand(t *testing.T) {
	assert.ErrorContains(t, wrongUse(&cobra.Command{Use: "up PATH"}, errors.New("no")), "no; see up --help")
}

func TestEnginesCommand(t *testing.T) {
	var out bytes.Buffer
	require.Zero(t, Run(t.Context(), Deps{Stdout: &out, Stderr: &out}, []string{"engines", "--json"}))
	var got struct{ Engines []engineReport }
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	names := map[string]engineReport{}
	for _, e := range got.Engines {
		names[e.Name] = e
		assert.True(t, e.Ready || e.Reason != "" && e.Install != "", e.Name)
	}
	for _, name := range []string{"function", "gorgonia", "emulated"} {
		assert.True(t, names[name].Ready, name)
	}
	assert.Contains(t, names, "onnxruntime-tensorrt")
}

func TestOneHyphenAsInTerraform(t *testing.T) {
	given := []string{"plan", "-var", "a=1", "-var-file=x", "-var=b=2", "--json", "-v", "--", "-var"}
	assert.Equal(t, []string{"plan", "--var", "a=1", "--var-file=x", "--var=b=2", "--json", "-v", "--", "-var"}, asInTerraform(given))
}
