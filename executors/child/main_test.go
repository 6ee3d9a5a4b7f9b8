package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// TestMain is what the main of a program with children looks like.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_DEAF") != "" {
		time.Sleep(time.Hour) // a program that does not call Serve
	}
	if os.Getenv("CHILD_TEST_RUDE") != "" {
		panic("not today")
	}
	if Requested() {
		Serve(trial{}, gorgonia.New())
	}
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		beParent()
	}
	os.Exit(m.Run())
}

// trial is an engine whose first input element selects what it does.
type trial struct{}

const (
	askPanic       = 101
	askHang        = 102
	askExit        = 103
	askInvalid     = 104
	askUnavailable = 105
	askPrint       = 106
	askProcs       = 107
	askLarge       = 108
	askPlainError  = 109
	askSpin        = 110
	askKill        = 111
)

func (trial) Name() string    { return "trial" }
func (trial) Version() string { return "7" }

func (trial) Load(_ context.Context, m executors.Model) (executors.Instance, error) {
	switch m.Module.Parameters["load"] {
	case "panic":
		panic("cannot load this model")
	case "error":
		return nil, errors.New("trial: this model is damaged; save it again")
	case "hang":
		time.Sleep(time.Hour)
	}
	return &trialInstance{name: m.Module.Name}, nil
}

type trialInstance struct {
	name string
	runs float32
}

func (*trialInstance) Signature() pipelines.Signature {
	ports := []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1}}}
	return pipelines.Signature{Inputs: ports, Outputs: ports}
}

func (*trialInstance) Memory() int64 { return 42 }
func (*trialInstance) Close() error  { return nil }

func (in *trialInstance) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	values, err := items[0][0].Float32s()
	if err != nil {
		return nil, err
	}
	in.runs++
	switch values[0] {
	case askPanic:
		panic("asked to panic")
	case askHang:
		select {}
	case askSpin:
		//lint:ignore SA5002 an engine that never comes back is what is tested
		for {
		}
	case askExit:
		os.Exit(3)
	case askKill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case askInvalid:
		return nil, wire.Errorf(wire.CodeInvalid, "", "no such number")
	case askUnavailable:
		return nil, wire.Errorf(wire.CodeUnavailable, "", "the device fell off")
	case askPlainError:
		return nil, errors.New("something else")
	case askPrint:
		fmt.Println("to standard output")
		fmt.Fprint(os.Stderr, "to standard error, without end")
	case askProcs:
		return [][]wire.Tensor{{wire.FromFloat32([]float32{float32(runtime.GOMAXPROCS(0))}, 1)}}, nil
	case askLarge:
		return [][]wire.Tensor{{wire.FromUint8(make([]byte, 1<<20), 1<<20)}}, nil
	}
	return items, nil
}

// beParent loads an instance, prints the child's process id and waits to be
// killed.
func beParent() {
	in, err := New("trial", Options{}).Load(context.Background(), executors.Model{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(in.(*instance).PID())
	_, _ = in.Run(context.Background(), [][]wire.Tensor{{wire.FromFloat32([]float32{askHang}, 1)}})
	os.Exit(1)
}
