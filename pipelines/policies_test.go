package pipelines

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tables in docs have a line for every policy and engine, with what it does.
func TestDocsHaveTheTables(t *testing.T) {
	lines := func(page string) []string {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		require.NoError(t, err)
		return strings.Split(string(text), "\n")
	}
	has := func(page, name, help string) {
		assert.True(t, slices.ContainsFunc(lines(page), func(line string) bool {
			return strings.HasPrefix(line, "| ") && strings.Contains(line, "`"+name+"`") && strings.Contains(line, help)
		}), "docs/%s has no line for %s that says %q", page, name, help)
	}
	for _, d := range DispatchPolicies() {
		page := "explanation/dispatching.md"
		if d.For == KindPool && d.Name != Dispatches(KindPool)[0] {
			page = "explanation/pools.md"
		}
		has(page, d.Name, d.Help)
	}
	for _, p := range PlanPolicies() {
		has(map[Kind]string{KindPipeline: "explanation/planning.md", KindPool: "explanation/pools.md", KindFunction: "explanation/functions.md"}[p.For], p.Name, p.Help)
	}
	for _, e := range Engines() {
		assert.True(t, strings.Contains(strings.Join(lines("reference/engines.md"), "\n"), "`"+e.Name+"`"), "docs/reference/engines.md does not name engine `%s`", e.Name)
	}
}

// Policies of a program's own are known by the slash in their names, and not judged here.
func TestQualifiedNames(t *testing.T) {
	for _, k := range []Kind{KindPipeline, KindCluster} {
		assert.Empty(t, DispatchFault(k, "acme/fifo"))
	}
	assert.Contains(t, DispatchFault(KindPipeline, "acme/fifo:early").Detail, "has no variants")
	own := Planning{Policy: "acme/greedy", Without: []string{"anything"}}
	assert.Empty(t, own.Faults(KindPipeline))
	assert.NotEmpty(t, own.Faults(KindPool))
	assert.Equal(t, own.Policy, Planning{Policy: "harpagon"}.Override(KindPipeline, own).Policy)
	assert.Equal(t, []int{1}, own.Concurrencies())
}

// An engine of a program's own may run a module that has neither model nor profile.
func TestEnginesOfAProgram(t *testing.T) {
	m := Module{Name: "m", Engine: "acme"}
	assert.Equal(t, "acme", m.EngineName())
	for _, source := range []Source{SourceAddress, SourceCommand, SourceFile} {
		assert.True(t, m.takes(source))
		assert.True(t, (&Module{}).takes(source))
		assert.True(t, (&Module{Engine: EngineEmulated}).takes(source))
	}
	assert.False(t, (&Module{Engine: "gorgonia"}).takes(SourceCommand))
	for want, m := range map[string]Module{
		EngineFunction: {Function: "crop", Engine: "gorgonia"}, EngineRemote: {Model: "grpc://h:1/m", Engine: EngineAuto},
		EngineProcess: {Command: []string{"serve"}, Model: "m.onnx"}, "gorgonia": {Model: "m.onnx"}, EngineEmulated: {},
	} {
		assert.Equal(t, want, m.EngineName())
	}
}
