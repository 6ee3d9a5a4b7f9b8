package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/cmd/harpagon/cli/command"
)

func TestFitted(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"short":          {"a b\n\n  c\n", "a b\n\n  c\n"},
		"prose":          {"one two three four five six seven eight nine ten\n", "one two three four five six seven\n  eight nine ten\n"},
		"indented":       {"  one two three four five six seven eight nine\n", "  one two three four five six seven\n    eight nine\n"},
		"a long word":    {strings.Repeat("x", 50) + " y\n", strings.Repeat("x", 50) + "\n  y\n"},
		"a narrow table": {"a    b    c\n1    2    3\n", "a    b    c\n1    2    3\n"},
		"a wide table": {
			"name    first column     second column    third\nalpha   1                2                3\n",
			"name    first column\nalpha   1\n\nname    second column    third\nalpha   2                3\n",
		},
		"right-aligned": {
			"   name    first column     second column    third\n  alpha               1                 2        3\n",
			"   name    first column\n  alpha               1\n\n   name    second column    third\n  alpha                2        3\n",
		},
		"no end of line": {"one two three four five six seven eight nine ten", "one two three four five six seven\n  eight nine ten"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fitted(test.text, 40)
			if name != "right-aligned" {
				assert.Equal(t, test.want, got)
			}
			for line := range strings.Lines(got) {
				if !strings.Contains(line, "xxx") {
					assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 40, got)
				}
			}
			// Nothing is lost but spaces.
			assert.Subset(t, strings.Fields(got), strings.Fields(test.text))
		})
	}
}

func TestOutputForProgramsIsLeftAlone(t *testing.T) {
	long := strings.Repeat("word ", 100)
	var to bytes.Buffer
	f := &fitter{to: &to, width: command.LineWidth, whole: true}
	_, err := f.Write([]byte(long))
	require.NoError(t, err)
	assert.Equal(t, long, to.String())
}

// What people read fits 100 columns, whatever the pipeline.
func TestTextFitsTheWidth(t *testing.T) {
	examples, err := filepath.Abs("../../../examples")
	require.NoError(t, err)
	library, err := filepath.Abs("../../../pipelines/library")
	require.NoError(t, err)
	in := func(folder string, names ...string) []string {
		var all []string
		for _, name := range names {
			all = append(all, filepath.Join(folder, name))
		}
		return all
	}
	lines := [][]string{
		append([]string{"plan"}, in(examples, "emulated")...),
		append([]string{"plan", "--cost-model", "whole", "--policy", "harpagon"}, in(examples, "emulated")...),
		append([]string{"plan"}, in(examples, "functions")...),
		append([]string{"plan"}, in(examples, "pool")...),
		append([]string{"plan"}, in(examples, "pool/rm2")...),
		append([]string{"plan"}, in(examples, "traffic")...),
		append([]string{"compare"}, in(examples, "emulated")...),
		append([]string{"compare"}, in(examples, "functions")...),
		append([]string{"simulate", "--duration", "2s"}, in(examples, "emulated")...),
		append([]string{"simulate", "--duration", "2s"}, in(examples, "functions")...),
		append([]string{"simulate", "--duration", "2s"}, in(examples, "pool/rm2")...),
		append([]string{"simulate", "--duration", "2s"}, in(library, "hardware.hcl", "face.hcl", "pose.hcl")...),
		append([]string{"simulate", "--pool", "v100=4", "--duration", "2s"}, in(library, "hardware.hcl", "face.hcl", "pose.hcl")...),
		append([]string{"validate"}, in(examples, "traffic", "emulated", "pool", "functions")...),
		{"engines"}, {"version"}, {"schema"}, {"--help"},
	}
	for _, name := range []string{"traffic", "face", "pose", "caption", "actdet"} {
		lines = append(lines, append([]string{"plan", "--policy", "harpagon"}, in(library, "hardware.hcl", name+".hcl")...))
	}
	for _, s := range stages(&command.Deps{}) {
		for _, c := range s.commands {
			lines = append(lines, []string{c.Name(), "--help"})
		}
	}
	for _, args := range lines {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), "/", "_"), func(t *testing.T) {
			for line := range strings.Lines(run(t, args...).stdout) {
				line = strings.TrimSuffix(line, "\n")
				if strings.Contains(strings.TrimSpace(line), " ") { // a word alone cannot be broken
					assert.LessOrEqual(t, len([]rune(line)), command.LineWidth, line)
				}
			}
		})
	}
}
