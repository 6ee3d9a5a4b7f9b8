package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

var fences = regexp.MustCompile("(?ms)^```(hcl|csv)\n(.*?)^```$")

// TestReferenceOfTheLanguage holds the examples of docs/reference/declaring.md to what
// they explain. Their profiles are those that init writes.
func TestReferenceOfTheLanguage(t *testing.T) {
	text := read(t, filepath.Join(root, "docs", "reference", "declaring.md"))
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
	assert.GreaterOrEqual(t, found["hcl"], 3)
	assert.Equal(t, 2, found["csv"], "a price list and a profile")
	for _, name := range steps.Builtin().Names() {
		assert.True(t, strings.Contains(text, "| `"+name+"` |"), "the function %s is not in the reference", name)
	}
}

// TestPlanningShowsWhatComparePrints holds the table of docs/explanation/planning.md to the program, but for
// how long each policy took.
func TestPlanningShowsWhatComparePrints(t *testing.T) {
	text := read(t, filepath.Join(root, "docs", "explanation", "planning.md"))
	_, shown, _ := strings.Cut(text, "```text\nactdet at")
	shown, _, _ = strings.Cut("actdet at"+shown, "```")
	library := filepath.Join(root, "pipelines", "library")
	got := run(t, "compare", filepath.Join(library, "hardware.hcl"), filepath.Join(library, "actdet.hcl"), "--cost-model", "proportional")
	took := regexp.MustCompile(`(yes|NO) +[0-9].*\n`)
	words := func(s string) []string { return strings.Fields(took.ReplaceAllString(s, "$1\n")) }
	assert.Equal(t, words(shown), words(got.stdout), "put what harpagon compare prints now into docs/explanation/planning.md")
}
