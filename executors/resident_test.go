package executors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// residentTask is that of an executor that runs all modules of two pipelines.
func residentTask() Task {
	slot := placement.Slot{Executor: "c1", Pipeline: "vision", Module: placement.AllModules, Device: "cpu/0", Hardware: "cpu", Batch: 8}
	member := func(name string, batch int, modules ...string) placement.Member {
		p := pipelines.Pipeline{Name: name}
		for _, m := range modules {
			module := pipelines.Module{Name: m, Engine: "fake"}
			module.Profile.Points = []pipelines.Point{{Hardware: "cpu", Batch: batch, Duration: time.Millisecond}}
			p.Modules = append(p.Modules, module)
		}
		return placement.Member{Pipeline: p}
	}
	d := placement.Deployment{Cluster: &placement.Cluster{Hardware: "cpu", Parts: []placement.Part{{
		Name: "vision", Devices: 1, Members: []placement.Member{member("a", 2, "m", "n"), member("b", 4, "m")},
	}}}}
	return NewTask(d, slot, "gateway")
}

// An executor of a cluster has all modules loaded, and a batch names the one to run.
func TestAnExecutorRunsAllModulesOfACluster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(residentTask(), Observer{})
		hello := r.accept()
		require.Len(t, hello.Residents, 3)
		require.Equal(t, "b/m", hello.Residents[2].Name)
		require.Equal(t, 4, hello.MaxBatch)
		require.Equal(t, &r.engine.sig, hello.SignatureOf("a/n"))
		require.Nil(t, hello.SignatureOf("c/m"))
		status, _ := r.host.Status("c1")
		require.EqualValues(t, 300, status.Memory, "all of them count")

		send := func(module string, n int) *attach.Result {
			items := make([][]wire.Tensor, n)
			for i := range items {
				items[i] = vector(2)
			}
			require.NoError(t, r.line.Send(&attach.Message{Batch: &attach.Batch{ID: 1, Module: module, Items: items}}))
			return r.result()
		}
		require.Len(t, send("a/m", 2).Items, 2)
		require.Len(t, send("b/m", 4).Items, 4)
		require.Contains(t, send("a/n", 3).Err.Reason, "a batch of 3 requests, but the executor takes 1 to 2")
		require.Contains(t, send("c/m", 1).Err.Reason, `a batch of module "c/m", which the executor does not run`)

		lost := true
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			if lost {
				lost = false
				return wire.Errorf(wire.CodeUnavailable, "", "crashed")
			}
			return nil
		}
		require.True(t, send("a/m", 1).Away)
		r.ready()
		require.Len(t, send("b/m", 1).Items, 1)
		require.Equal(t, 6, r.engine.loads, "all are loaded again")
		r.drain()
		require.NoError(t, <-r.done)
		require.Zero(t, r.engine.open)
	})
}

func TestAResidentThatCannotBeLoadedIsNamed(t *testing.T) {
	r := newRig(t)
	r.engine.load = func(n int) error {
		if n == 3 {
			return errors.New("damaged file")
		}
		return nil
	}
	err := r.host.RunExecutor(t.Context(), residentTask(), Observer{})
	require.ErrorContains(t, err, `executors: c1 cannot load module "m" with engine "fake": damaged file`)
	require.Zero(t, r.engine.open, "those before are closed")
}
