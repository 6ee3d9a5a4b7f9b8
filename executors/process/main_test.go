package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// What makes the test program something else: a command to be supervised, or an
// executor that is to be killed.
const (
	served = "PROCESS_TEST_SERVE" // how to serve
	victim = "PROCESS_TEST_VICTIM"
)

func TestMain(m *testing.M) {
	subprocess.Supervise()
	switch {
	case len(os.Args) > 1 && os.Args[1] == served:
		serve(os.Args[2])
	case os.Getenv(victim) != "":
		beVictim()
	}
	os.Exit(m.Run())
}

// beVictim loads a command, reports that, and waits to be killed.
func beVictim() {
	m := model(os.Getenv(victim))
	if script := os.Getenv(victim); strings.HasSuffix(script, ".py") {
		m = executors.Model{Module: pipelines.Module{Name: "mod", Command: []string{"python3", "-B", script}}, Batches: []int{1, 8}, MaxBatch: 8}
	}
	in, err := New(Options{}).Load(context.Background(), m)
	fmt.Println("loaded", err)
	for n := 1; strings.HasSuffix(m.Module.Command[len(m.Module.Command)-1], ".py"); n = n*2%(1<<20) + 1 {
		if _, err := in.Run(context.Background(), [][]wire.Tensor{bytesOf(n, 1)}); err != nil {
			panic(err)
		}
	}
	select {}
}

// model of a module "mod" that the test program serves.
func model(how string, batches ...int) executors.Model {
	if len(batches) == 0 {
		batches = []int{1, 4}
	}
	return executors.Model{
		Module:  pipelines.Module{Name: "mod", Command: []string{os.Args[0], served, how}},
		Batches: batches, MaxBatch: batches[len(batches)-1], Outputs: []string{"y"},
	}
}

// serve is the command: it answers with its process id beside the input.
func serve(how string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	switch how {
	case "missing":
		fmt.Fprintln(os.Stderr, "no module named torch")
		os.Exit(3)
	case "silent":
		<-end
		os.Exit(0)
	case "stubborn", "family": // with a grandchild that has left the group and one that has not
		for _, apart := range []bool{true, false} {
			c := exec.Command("sleep", "300")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
			if err := c.Start(); err != nil {
				panic(err)
			}
			fmt.Println("grandchild", c.Process.Pid)
		}
		if how == "stubborn" {
			end = nil
		}
	}
	fmt.Println("command", os.Getpid(), os.Getenv("OMP_NUM_THREADS"), os.Getenv("HARPAGON_MAX_BATCH"), os.Getenv("HARPAGON_CHILD"))
	l, err := net.Listen("unix", os.Getenv("HARPAGON_SOCKET"))
	if err != nil {
		panic(err)
	}
	if how == "grpc" {
		s := grpc.NewServer()
		pb.RegisterGRPCInferenceServiceServer(s, overGRPC{})
		go func() { _ = s.Serve(l) }()
	} else {
		go func() { _ = http.Serve(l, overHTTP(how)) }()
	}
	<-end
	os.Exit(0)
}

func metadata() *wire.Metadata {
	return &wire.Metadata{
		Pipeline: "mod",
		Inputs:   []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 1}}},
		Outputs:  []pipelines.Port{{Name: "y", Datatype: "INT64", Shape: []int64{-1, 2}}},
	}
}

// compute gives the input and the process id. Some inputs do harm.
func compute(q *wire.InferRequest) *wire.InferResponse {
	v, err := q.Inputs[0].Float32s()
	if err != nil {
		panic(err)
	}
	var out []int64
	for _, x := range v {
		switch x {
		case -1:
			fmt.Fprintln(os.Stderr, "fatal: the GPU has gone")
			os.Exit(7)
		case -2:
			time.Sleep(time.Hour)
		}
		out = append(out, int64(x), int64(os.Getpid()))
	}
	return &wire.InferResponse{Pipeline: q.Pipeline, Outputs: []wire.NamedTensor{{Name: "y", Tensor: wire.FromInt64(out, int64(len(v)), 2)}}}
}

type overHTTP string

func (how overHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, "/v2"); path {
	case "":
		_, _ = io.WriteString(w, `{"extensions":["binary_tensor_data"]}`)
	case "/health/live", "/models/mod/ready":
	case "/models/mod":
		body, _ := oip.EncodeMetadata(metadata())
		_, _ = io.WriteString(w, strings.Replace(string(body), oip.Platform, "test", 1))
	case "/models/mod/infer":
		if how == "garbage" {
			_, _ = io.WriteString(w, "{{{")
			return
		}
		body, _ := io.ReadAll(r.Body)
		header, _ := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
		c, err := oip.DecodeRequest(body, header)
		if err != nil {
			panic(err)
		}
		body, header, _ = oip.EncodeResponse(compute(&c.Request), c.AsBinary)
		w.Header().Set(oip.HeaderLength, strconv.Itoa(header))
		_, _ = w.Write(body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

type overGRPC struct {
	pb.UnimplementedGRPCInferenceServiceServer
}

func (overGRPC) ServerLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

func (overGRPC) ModelReady(context.Context, *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	return &pb.ModelReadyResponse{Ready: true}, nil
}

func (overGRPC) ModelMetadata(context.Context, *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	m := oipgrpc.EncodeMetadata(metadata())
	m.Platform = "test"
	return m, nil
}

func (overGRPC) ModelInfer(_ context.Context, m *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	c, err := oipgrpc.DecodeRequest(m)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return oipgrpc.EncodeResponse(compute(&c.Request), c.Raw)
}
