package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// The last frame of a stream is kept while it has viewers and the declaration allows it: of so many streams,
// of that stream alone, and in memory of its own.
func TestTheLastFrameOfAStream(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		p := single(time.Second)
		p.Stream = pipelines.Stream{Rate: 10, Count: 2 * mostShown}
		p.Rate = p.Stream.Total()
		p.Overlay = pipelines.Overlay{Frame: "x", Boxes: "y", Console: allowed}
		filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 5 * ms}, func(g *Gateway, _ map[string]*worker) {
			send := func(stream string, x float32) {
				in := vector(x, 0)
				_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: in, Frame: wire.Frame{Stream: stream}})
				require.NoError(t, err)
				clear(in[0].Data) // whose buffer is used again
			}
			id := func(name string) string {
				for _, line := range g.StreamLines("p", 100) {
					if line.Name == name {
						return line.ID
					}
				}
				assert.Fail(t, "it is not open", name)
				return ""
			}
			send("a", 1)
			send("b", 2)
			a, b := id("a"), id("b")
			time.Sleep(time.Second)
			_, ok := g.LastFrame("p", a)
			require.Equal(t, allowed, ok)
			_, ok = g.LastFrame("nobody", a)
			assert.False(t, ok)
			if !allowed {
				send("a", 3)
				assert.Zero(t, g.pipeline("p").shown.looked.Load())
				return
			}
			f, _ := g.LastFrame("p", a)
			assert.True(t, f.At.IsZero(), "what came before is not kept")
			time.Sleep(time.Second)
			send("a", 3)
			send("b", 4)
			f, _ = g.LastFrame("p", a)
			x, err := f.Tensors["x"].Float32s()
			require.NoError(t, err)
			assert.Equal(t, []float32{3, 0}, x)
			assert.Contains(t, f.Tensors, "y")
			time.Sleep(100 * ms)
			send("a", 5)
			again, _ := g.LastFrame("p", a)
			assert.Equal(t, f.At, again.At, "two a second are enough for people")
			for i := 1; i < mostShown; i++ {
				_, ok = g.LastFrame("p", fmt.Sprint("another ", i))
				require.True(t, ok)
			}
			_, ok = g.LastFrame("p", b)
			assert.False(t, ok, "that would be one too many")
			for range 3 { // one goes on looking
				time.Sleep(8 * time.Second)
				_, ok = g.LastFrame("p", a)
				require.True(t, ok)
			}
			assert.EqualValues(t, 1, g.pipeline("p").shown.looked.Load(), "the others have gone")
			time.Sleep(11 * time.Second)
			assert.Zero(t, g.pipeline("p").shown.looked.Load(), "nobody looks")
			send("a", 6)
			_, ok = g.LastFrame("p", a)
			assert.True(t, ok)
		})
	}
}

// A frame that is too large for that is not kept, and the stream goes on.
func TestFramesTooLargeToKeep(t *testing.T) {
	var s shown
	o := pipelines.Overlay{Frame: "x", Console: true}
	s.of = map[string]*shownStream{streamID("a"): {}}
	s.looked.Store(1)
	for _, size := range []int{mostKept + 1, mostKept} {
		in := []wire.NamedTensor{{Name: "x", Tensor: wire.FromUint8(make([]byte, size), int64(size))}}
		s.keep(o, "a", time.Now(), &wire.InferRequest{Inputs: in}, &wire.InferResponse{})
		assert.Equal(t, size > mostKept, s.of[streamID("a")].frame.At.IsZero())
	}
}
