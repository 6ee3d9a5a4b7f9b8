package child

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/wire"
)

// TestItemsThroughSharedMemory holds the way through an area to the items that
// were put in, whether all, some or none of them find room there.
func TestItemsThroughSharedMemory(t *testing.T) {
	memory := make([]byte, 1<<12)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := &shared{all: memory[:rapid.SampledFrom([]int{0, 64, 500, len(memory)}).Draw(t, "size")]}
		items := make([][]wire.Tensor, rng.IntN(5))
		width := rng.IntN(4)
		for i := range items {
			if rng.IntN(20) == 0 {
				width = rng.IntN(4) // items need not be alike
			}
			items[i] = make([]wire.Tensor, width)
			for j := range items[i] {
				data := make([]byte, rng.IntN(3)*(1+rng.IntN(200)))
				for k := range data {
					data[k] = byte(rng.Uint32())
				}
				items[i][j] = wire.Tensor{Datatype: "UINT8", Shape: []int64{int64(len(data))}, Data: data}
			}
		}
		to := s.requests(0)
		places := to.place(nil, items)
		frame, err := appendItems(startFrame(nil, kindRun), items, places)
		require.NoError(t, err)
		assert.Len(t, frame, headerSize+itemsSize(items, places))
		var written bytes.Buffer
		_, err = writeItems(&written, nil, kindRun, items, places, len(frame))
		require.NoError(t, err)
		assert.Equal(t, frame[headerSize:], written.Bytes()[headerSize:])
		body := bytes.Clone(frame[headerSize:])
		got, err := (&parser{shared: s.all}).parse(body)
		require.NoError(t, err)
		from := s.requests(0)
		from.take(got)
		clear(memory)
		assert.Equal(t, items, got)
		if len(body) > 0 {
			_, err = (&parser{shared: s.all}).parse(body[:rng.IntN(len(body))])
			assert.Error(t, err)
		}
	})
}

func TestRowsOfAnInputLieTogether(t *testing.T) {
	s := &shared{all: make([]byte, 1<<12)}
	to := s.results(0)
	row := func(x byte) wire.Tensor {
		return wire.Tensor{Datatype: "UINT8", Shape: []int64{3}, Data: []byte{x, x, x}}
	}
	places := to.place(nil, [][]wire.Tensor{{row(1), row(10)}, {row(2), row(20)}, {row(3), row(30)}})
	assert.Equal(t, []int{2048, 2112, 2051, 2115, 2054, 2118}, places)
	assert.Equal(t, []byte{1, 1, 1, 2, 2, 2, 3, 3, 3}, s.all[2048:2057])
	inside := s.all[2048:2051:2051]
	again := to.place(places, [][]wire.Tensor{{{Datatype: "UINT8", Shape: []int64{3}, Data: inside}}})
	assert.Equal(t, []int{2048}, again, "what lies there stays there")
}

func TestAMessageCannotPointOutsideTheSharedMemory(t *testing.T) {
	items := [][]wire.Tensor{{wire.FromUint8(make([]uint8, 10), 10)}}
	for place, good := range map[int]bool{0: true, 90: true, 91: false, 100: false, 1 << 40: false, -2: false} {
		raw, err := appendItems(nil, items, []int{place})
		require.NoError(t, err)
		_, err = (&parser{shared: make([]byte, 100)}).parse(raw)
		assert.Equal(t, good, err == nil, place)
		_, err = new(parser).parse(raw)
		assert.Error(t, err, "there is none")
	}
}

func TestPipesCarryWhatMemoryDoesNot(t *testing.T) {
	o := quick(new(log))
	o.Pipe = true
	in := load(t, o, nil)
	assert.Nil(t, in.process.shared)
	o.Pipe, o.MaxMessage = false, 100<<10
	small := load(t, o, nil)
	require.NotNil(t, small.process.shared)
	for _, in := range []executors.Instance{in, small} {
		items := batch(make([]float32, 20<<10)...)
		got, err := in.Run(t.Context(), items)
		require.NoError(t, err)
		assert.Equal(t, items, got)
	}
}

func TestResultsOutliveTheChild(t *testing.T) {
	in := load(t, quick(new(log)), nil)
	items := batch(make([]float32, 1<<16)...)
	got, err := in.Run(t.Context(), items)
	require.NoError(t, err)
	other := batch(make([]float32, 1<<16)...)
	other[0][0].Data[5] = 7
	_, err = in.Run(t.Context(), other)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	assert.Equal(t, items, got)
}

// TestCloseDuringBatches unmaps the memory under goroutines that use it.
func TestCloseDuringBatches(t *testing.T) {
	for range 5 {
		in := load(t, quick(new(log)), nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := in.Run(t.Context(), batch(make([]float32, 1<<18)...)); err != nil {
					return
				}
			}
		}()
		for range rand.IntN(20) {
			_ = in.Memory()
		}
		require.NoError(t, in.Close())
		<-done
	}
}

func TestAChildAsksForHugePages(t *testing.T) {
	env := environment([]string{"A=1"}, []string{"B=2"}, "cpu/0")
	assert.Equal(t, []string{"GOMAXPROCS=1", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "B=2"}, env)
	env = environment([]string{"GLIBC_TUNABLES=x"}, nil, "gpu/GPU-7")
	assert.Equal(t, []string{"GOMAXPROCS=1", "CUDA_VISIBLE_DEVICES=GPU-7"}, env)
}
