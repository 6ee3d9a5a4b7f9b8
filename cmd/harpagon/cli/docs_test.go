package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

var fences = regexp.MustCompile("(?ms)^```(hcl|csv)\n(.*?)^```$")

// TestReferenceOfTheLanguage parses and checks the examples of the pages about the language.
// Their profiles are those that init writes.
func TestReferenceOfTheLanguage(t *testing.T) {
	var text string
	for _, page := range []string{"hardware", "hcl", "modules", "fanout", "expressions", "profiles", "steps"} {
		text += read(t, filepath.Join(root, "docs", "reference", page+".md"))
	}
	found, folder := map[string]int{}, t.TempDir()
	for i, fence := range fences.FindAllStringSubmatch(text, -1) {
		kind, src := fence[1], []byte(fence[2])
		found[kind]++
		t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
			if kind == "csv" && strings.Contains(fence[2], "hardware,price") {
				require.NoError(t, os.WriteFile(filepath.Join(folder, "aws-2026-11.csv"), src, 0o600))
				return // what names it reads it
			}
			if kind == "csv" {
				points, diags := files.ReadProfile("doc.csv", src)
				assert.Empty(t, diags)
				assert.NotEmpty(t, points)
				return
			}
			at := templateRoot
			if strings.Contains(fence[2], "aws-2026-11.csv") {
				at = folder
			}
			config, diags := hcl.Parse(filepath.Join(at, "doc.hcl"), src)
			require.Empty(t, diags)
			formatted, diags := hcl.Format("doc.hcl", src)
			assert.Empty(t, diags)
			assert.Equal(t, string(src), string(formatted))
			diags = config.Validate(executors.Signatures(steps.New(steps.Builtin())))
			for _, d := range diags {
				if len(config.Document.Pipelines) > 0 || d.Severity != hclv2.DiagError || d.Summary != "No pipeline" {
					t.Errorf("%v", d)
				}
			}
		})
	}
	assert.GreaterOrEqual(t, found["hcl"], 6)
	assert.Equal(t, 2, found["csv"], "a price list and a profile")
	for _, name := range steps.Builtin().Names() {
		assert.True(t, strings.Contains(text, "| `"+name+"` |"), "the function %s is not in the reference", name)
	}
}

// TestPlanningShowsWhatComparePrints holds the table of docs/results/planning.md to the program, but for
// how long each policy took.
func TestPlanningShowsWhatComparePrints(t *testing.T) {
	text := read(t, filepath.Join(root, "docs", "results", "planning.md"))
	_, shown, _ := strings.Cut(text, "```text\nactdet at")
	shown, _, _ = strings.Cut("actdet at"+shown, "```")
	library := filepath.Join(root, "pipelines", "library")
	got := run(t, "compare", filepath.Join(library, "hardware.hcl"), filepath.Join(library, "actdet.hcl"), "--cost-model", "proportional")
	took := regexp.MustCompile(`(yes|NO) +[0-9].*\n`)
	words := func(s string) []string { return strings.Fields(took.ReplaceAllString(s, "$1\n")) }
	assert.Equal(t, words(shown), words(got.stdout), "put what harpagon compare prints now into docs/results/planning.md")
}

// TestReferenceOfCommands: the pages of commands and flags list what the program has.
func TestReferenceOfCommands(t *testing.T) {
	var commands strings.Builder
	flags := map[string][]string{} // the commands of a row
	var visit func(c *cobra.Command, path string)
	visit = func(c *cobra.Command, path string) {
		if c.Runnable() && !c.HasSubCommands() {
			fmt.Fprintf(&commands, "| `%s` | %s |\n", path, c.Short)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, usage := pflag.UnquoteUsage(f)
			if f.Name == "json" {
				return
			}
			if b := f.DefValue; kind != "" && !slices.Contains([]string{"", "0", "0s", "[]"}, b) && !strings.Contains(usage, "default") {
				usage += fmt.Sprintf(" (default `%s`)", b)
			}
			row := fmt.Sprintf("| `%s` | %%s | %s |\n", strings.TrimSpace("--"+f.Name+" "+kind), strings.ReplaceAll(usage, "|", "\\|"))
			flags[row] = append(flags[row], strings.TrimPrefix(path, "harpagon "))
		})
		for _, sub := range c.Commands() {
			visit(sub, path+" "+sub.Name())
		}
	}
	for _, s := range stages(&Deps{}) {
		fmt.Fprintf(&commands, "\n## %s\n\n| command | what it does |\n|---|---|\n", strings.TrimSuffix(s.title, ":"))
		for _, c := range s.commands {
			visit(c, "harpagon "+c.Name())
		}
	}
	rows := []string{}
	for row, of := range flags {
		slices.Sort(of)
		rows = append(rows, fmt.Sprintf(row, strings.Join(of, ", ")))
	}
	slices.Sort(rows)
	generated(t, "commands.md", commands.String()+"\n")
	generated(t, "flags.md", "| flag | of | meaning |\n|---|---|---|\n"+strings.Join(rows, ""))
}

// generated compares a part of a page of the reference, and writes it with -update.
func generated(t *testing.T, page, want string) {
	t.Helper()
	path := filepath.Join(root, "docs", "reference", page)
	head, rest, found := strings.Cut(read(t, path), "<!-- generated -->\n")
	got, tail, ended := strings.Cut(rest, "<!-- end -->")
	require.True(t, found && ended, page)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+"<!-- generated -->\n"+want+"<!-- end -->"+tail), 0o644))
		return
	}
	assert.Equal(t, want, got, "docs/reference/%s: go test ./cmd/harpagon/cli -run TestReferenceOfCommands -update", page)
}
