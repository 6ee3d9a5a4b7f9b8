package server

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/queue"
)

// How BenchmarkArrivals loads the dispatcher.
const (
	models     = 64
	executors  = 1000
	largest    = 128
	busy       = 0.9 // of what executors can do
	gatewayEnv = "HARPAGON_BENCH_GATEWAY"
)

var arrivalRate = flag.Float64("arrivals", 200_000, "requests a second that BenchmarkArrivals offers")

// slow makes the durations of Symphony's ResNet50 longer (5.072 ms and 1.053 ms an item,
// 750 requests a second within 100 ms), and the objective with them, so that executors
// are busy at the rate, which few cores can offer.
func slow() float64 { return busy * 750 * executors / *arrivalRate }

func objective() time.Duration { return time.Duration(slow() * 1e8) }

func duration(batch int) time.Duration {
	return time.Duration(slow() * (5.072e6 + 1.053e6*float64(batch)))
}

// clustered is the deployments of the parts.
func clustered(parts int) (all []placement.Deployment) {
	for part := range parts {
		of := placement.Deployment{Generation: 1, Cluster: &placement.Cluster{Dispatch: "adaptive", Hardware: "gpu"}}
		of.Pipeline.Name = fmt.Sprintf("part-%d", part)
		var members []placement.Member
		for i := range models / parts {
			p := pipelines.Pipeline{
				Name: fmt.Sprintf("p%d-%d", part, i), SLO: objective(), Rate: *arrivalRate / models,
				Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{1}}},
			}
			m := pipelines.Module{Name: "m", Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}
			for batch := 1; batch <= largest; batch++ {
				m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "gpu", Batch: batch, Concurrency: 1, Duration: duration(batch)})
			}
			p.Modules = []pipelines.Module{m}
			p.Outputs = []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "m", Port: "y"}}}
			members = append(members, placement.Member{Pipeline: p, Budgets: map[string]time.Duration{"m": objective()}})
		}
		of.Cluster.Parts = []placement.Part{{Name: of.Pipeline.Name, Devices: executors / parts, Members: members}}
		for i := range executors / parts {
			of.Slots = append(of.Slots, placement.Slot{
				Executor: fmt.Sprintf("e%d/%d", part, i), Pipeline: of.Pipeline.Name, Module: placement.AllModules,
				Hardware: "gpu", Host: "h", Device: fmt.Sprint(part, "-", i), Batch: largest, Share: 1, Model: "d",
			})
		}
		all = append(all, of)
	}
	return all
}

// hear reads what a dispatcher sends a gateway, past the preamble, until the connection ends.
func hear(from io.Reader, tell func(queue.Message)) {
	r := bufio.NewReader(from)
	_, _ = r.Discard(9) // the preamble
	for {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		var m queue.Message
		if queue.Parse(frame, &m) == nil {
			tell(m)
		}
	}
}
