package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fitsSchema compares what a command printed with --json with its schema. Every
// test that runs a command comes by here.
func fitsSchema(t *testing.T, args []string, stdout string) {
	t.Helper()
	if !slices.Contains(args, "--json") || stdout == "" {
		return
	}
	name := args[0]
	if name == "import" {
		name += "-" + args[1]
	}
	assert.NoError(t, against(t, name, stdout), "harpagon %s: see schemas/%s.json", strings.Join(args, " "), name)
}

func against(t *testing.T, name, text string) error {
	t.Helper()
	raw, err := schemaOf(name)
	require.NoError(t, err)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(name, schema))
	compiled, err := c.Compile(name)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	return compiled.Validate(value)
}

func TestSchemas(t *testing.T) {
	names := strings.Fields(run(t, "schema").stdout)
	assert.Equal(t, schemaNames(), names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text := run(t, "schema", name).stdout
			require.True(t, json.Valid([]byte(text)))
			assert.Error(t, against(t, name, `{}`), "something is required")
			assert.Error(t, against(t, name, `[]`))
		})
	}
	got := run(t, "schema", "plam")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `there is no schema "plam"; there are apply,`)
}

// Every command with --json has a schema.
func TestEveryJSONHasASchema(t *testing.T) {
	for _, s := range stages(&Deps{}) {
		for _, c := range s.commands {
			if c.Flags().Lookup("json") != nil {
				assert.Contains(t, schemaNames(), c.Name())
			}
			for _, sub := range c.Commands() {
				if sub.Flags().Lookup("json") != nil {
					assert.Contains(t, schemaNames(), c.Name()+"-"+sub.Name())
				}
			}
		}
	}
}

// The fields that are promised: a schema that lost one would let programs down.
func TestPromisedFields(t *testing.T) {
	for name, want := range map[string]map[string][]string{
		"plan": {
			"plans":                         {"pipeline", "policy", "cost_model", "status", "sound", "cost", "lower_bound", "slo_ms", "latency_ms", "solve_ms", "modules"},
			"plans.modules":                 {"name", "rate", "dummy_rate", "budget_ms", "worst_case_ms", "proven_ms", "cost", "groups"},
			"plans.modules.groups":          {"hardware", "batch", "concurrency", "duration_ms", "machines", "rate", "period_ms", "window_ms"},
			"pools":                         {"pool", "policy", "status", "cost", "budget", "instances", "upper_bound_rate", "goodput_rate"},
			"functions":                     {"function", "policy", "status", "cost_per_request", "groups"},
			"functions.groups":              {"platform", "batch", "rate", "latency_avg_ms", "latency_max_ms", "cost_per_request", "applications"},
			"functions.groups.applications": {"name", "timeout_ms"},
		},
		"simulate":  {"simulations": {"pipeline", "dispatch", "arrivals", "seed", "offered_rate", "requests", "completed", "late", "dropped", "refused", "attainment", "mean_batch", "utilisation", "latency_ms", "devices"}},
		"load":      {"loads": {"service", "offered", "sent", "completed", "late", "dropped", "refused", "failed", "unanswered", "wrong", "attainment", "latency_ms"}},
		"reproduce": {"figures": {"id", "title", "seconds", "rows"}, "figures.rows": {"setting", "system", "metric", "unit", "ours", "paper"}},
		"status":    {"services": {"name", "kind", "phase", "generation", "policy", "cost_model", "cost", "plan", "decisions"}, "fleet.gateways": {"name", "address"}, "fleet.dispatchers": {"name", "address", "epoch", "owns"}, "fleet.hosts": {"name", "devices"}, "fleet.hosts.devices": {"name", "hardware", "executors"}},
	} {
		var schema map[string]any
		raw, err := schemaOf(name)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &schema))
		for path, fields := range want {
			at := schema
			for _, step := range strings.Split(path, ".") {
				at = at["properties"].(map[string]any)[step].(map[string]any)
				if items, ok := at["items"].(map[string]any); ok {
					at = items
				}
			}
			for _, field := range fields {
				assert.Contains(t, at["properties"], field, "%s: %s", name, path)
			}
		}
	}
}
