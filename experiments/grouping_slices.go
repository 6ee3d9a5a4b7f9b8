package experiments

import (
	"context"
	"fmt"
	"math"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
)

// latenciesOnCPU are those of VGG-19 over the size of the function (equation 1).
func latenciesOnCPU(context.Context, *Env) (out Result, err error) {
	for _, c := range published.VGG19().CPU {
		for _, v := range []float64{0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16} {
			at := Set("group", fmt.Sprintf("batches of %d", c.Batch), "vcpus", v)
			out.Add(at, "average", latency, "ms", 1000*c.Avg.At(v))
			out.Add(at, "longest", latency, "ms", 1000*c.Max.At(v))
		}
	}
	return out, nil
}

// latenciesOnGPU are those of VGG-19 over the batch, on a part of a GPU and on the whole
// (equations 2 to 4).
func latenciesOnGPU(context.Context, *Env) (out Result, err error) {
	cloud, line := published.Cloud(), published.VGG19().GPU
	device := line.Device(&cloud)
	for _, memory := range []float64{2, device.Memory} {
		for b := 1; b <= line.Batches(); b++ {
			at := Set("group", fmt.Sprintf("%g GB", memory), "batch", b)
			out.Add(at, "average", latency, "ms", 1000*line.Avg(b, memory, device))
			out.Add(at, "longest", latency, "ms", 1000*line.Max(b, memory, device))
		}
	}
	out.Note("The average keeps to the line; the longest rises by a round's rest with each slice more that a batch needs.")
	return out, nil
}

const latency = "latency"

// arrivalsInARound are how many times of arrival in a round of slices are played.
const arrivalsInARound = 4800

// sliced plays figure 8: a request that needs two of its function's slices comes at each time
// of a round, of which the function has the first part to itself.
func sliced(context.Context, *Env) (out Result, err error) {
	cloud := published.Cloud()
	device := published.VGG19().GPU.Device(&cloud)
	round := device.Memory * device.Slice
	for _, memory := range []float64{1, 2, 4, 8, 12} {
		own := memory * device.Slice
		line := pipelines.GPULine{Xi2: 2 * own}
		least, most, sum := math.Inf(1), 0.0, 0.0
		for k := range arrivalsInARound {
			took := underSlices(float64(k)*round/arrivalsInARound, 2*own, own, round)
			least, most, sum = min(least, took), max(most, took), sum+took
		}
		at := Set("memory_gb", memory)
		out.AddPrinted(at, "played", "shortest", "ms", 1000*least, 1000*(device.Memory+memory)*device.Slice)
		out.AddPrinted(at, "played", "longest", "ms", 1000*most, 1000*2*round)
		out.Add(at, "played", "average", "ms", 1000*sum/arrivalsInARound)
		out.Add(at, "equations 3 and 4", "longest", "ms", 1000*line.Max(1, memory, device))
		out.Add(at, "equations 3 and 4", "average", "ms", 1000*line.Avg(1, memory, device))
	}
	out.Note("What needs whole slices takes as long as equation 3 has for the average only where it comes at the start of what is taken from it; over all times of a round the average is up to a quarter less.")
	return out, nil
}

// underSlices is how long a request takes, in seconds, that comes at a time of a round and needs so
// much of the device, where the first own seconds of each round are its function's.
func underSlices(at, needs, own, round float64) float64 {
	const tiny = 1e-9
	now := at
	for {
		if left := own - math.Mod(now, round); left > tiny {
			if needs <= left+tiny {
				return now + needs - at
			}
			needs, now = needs-left, now+left
		}
		now = (math.Floor(now/round+tiny) + 1) * round
	}
}
