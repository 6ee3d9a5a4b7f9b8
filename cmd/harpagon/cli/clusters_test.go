package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const aCluster = `hardware "gpu" { price = 2 }

pipeline "a" {
  slo      = "50ms"
  rate     = 200
  arrivals = "poisson"
  input "x" {
    datatype = "FP32"
    shape    = [3]
  }
  module "m" {
    profile = "p.csv"
    inputs  = { x = input.x }
  }
  module "n" {
    profile = "p.csv"
    inputs  = { x = module.m.y }
  }
  output "y" { value = module.n.y }
}

pipeline "b" {
  slo      = "40ms"
  rate     = 100
  arrivals = "poisson"
  input "x" {
    datatype = "FP32"
    shape    = [3]
  }
  module "m" {
    profile = "p.csv"
    inputs  = { x = input.x }
  }
  output "y" { value = module.m.y }
}

cluster "vision" {
  hardware  = "gpu"
  pipelines = ["a", "b"]
}
`

// TestClusterFromPlanToSimulation: a cluster is planned, compared and simulated,
// with the devices and budgets of its plan, and serving it is refused.
func TestClusterFromPlanToSimulation(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.hcl"), []byte(aCluster), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.csv"), []byte("hardware,batch,duration_ms\ngpu,1,5\ngpu,2,6\ngpu,4,8\ngpu,8,12\n"), 0o600))
	got := run(t, "plan", dir, "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	fitsSchema(t, []string{"plan", "--json"}, got.stdout)
	var plans struct {
		Plans    []any
		Clusters []struct {
			Cluster     string
			Devices     int
			SubClusters []any `json:"sub_clusters"`
			Pipelines   []struct {
				Name    string
				Budgets map[string]float64 `json:"budgets_ms"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &plans))
	assert.Empty(t, plans.Plans, "its pipelines have no plans of their own")
	require.Len(t, plans.Clusters, 1)
	c := plans.Clusters[0]
	assert.Len(t, c.SubClusters, 1)
	require.Len(t, c.Pipelines, 2)
	assert.InDelta(t, 50, c.Pipelines[0].Budgets["m"]+c.Pipelines[0].Budgets["n"], 0.01)

	got = run(t, "simulate", dir, "--duration", "5s", "--find-goodput", "--tolerance", "0.1", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	fitsSchema(t, []string{"simulate", "--json"}, got.stdout)
	var simulated struct {
		Simulations []struct {
			Pipeline    string
			Dispatch    string
			Devices     int
			Attainment  float64
			GoodputRate float64 `json:"goodput_rate"`
		}
		Models []struct {
			Pipeline            string
			Requests, Completed int
			Attainment          float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &simulated))
	require.Len(t, simulated.Simulations, 2)
	require.Len(t, simulated.Models, 2)
	for i, one := range simulated.Simulations {
		assert.Equal(t, c.Devices, one.Devices)
		assert.Equal(t, "adaptive", one.Dispatch)
		assert.Greater(t, one.Attainment, 0.98)
		assert.Positive(t, one.GoodputRate)
		assert.Equal(t, one.Pipeline, simulated.Models[i].Pipeline)
		assert.GreaterOrEqual(t, simulated.Models[i].Attainment, 0.99)
	}

	got = run(t, "compare", dir, "--policy", "exact", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	fitsSchema(t, []string{"compare", "--json"}, got.stdout)
	assert.Contains(t, run(t, "compare", dir, "--policy", "exact").stdout, "cluster vision beside its pipelines on devices of their own")
}

// TestSimulateAClusterThatFollowsItsLoad: the size grows from what is planned, and a
// search for goodput is refused.
func TestSimulateAClusterThatFollowsItsLoad(t *testing.T) {
	got := run(t, "simulate", "../../../examples/cluster/emulated", "--rate", "900", "--duration", "2m", "--scale", "2s", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	fitsSchema(t, []string{"simulate", "--json"}, got.stdout)
	var out struct {
		Scaled []struct {
			Cluster string
			Mean    float64 `json:"mean_devices"`
			Changes int
			Sizes   []struct{ Devices int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Scaled, 1)
	one := out.Scaled[0]
	assert.Equal(t, "vision", one.Cluster)
	assert.Less(t, one.Sizes[0].Devices, one.Sizes[len(one.Sizes)-1].Devices)
	assert.NotZero(t, one.Changes)
	assert.Greater(t, one.Mean, float64(one.Sizes[0].Devices))
	got = run(t, "simulate", "../../../examples/cluster/emulated", "--scale", "2s", "--find-goodput")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "leave out --scale")
}
