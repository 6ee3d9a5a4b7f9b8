package child

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

func TestRowsOfAnInputLieTogether(t *testing.T) {
	s := &shared{all: make([]byte, 1<<12)}
	to := s.results(0)
	row := func(x byte) wire.Tensor {
		return wire.Tensor{Datatype: "UINT8", Shape: []int64{3}, Data: []byte{x, x, x}}
	}
	columns, err := to.put([][]wire.Tensor{{row(1), row(10)}, {row(2), row(20)}, {row(3), row(30)}})
	require.NoError(t, err)
	assert.Equal(t, [][]rows{{{3, 2048, 3, "UINT8", []int64{3}}}, {{3, 2112, 3, "UINT8", []int64{3}}}}, columns, "and are described together")
	assert.Equal(t, []byte{1, 1, 1, 2, 2, 2, 3, 3, 3}, s.all[2048:2057])
	inside := s.all[2051:2054:2054]
	columns, err = to.put([][]wire.Tensor{{{Datatype: "UINT8", Shape: []int64{3}, Data: inside}}})
	require.NoError(t, err)
	assert.Equal(t, [][]rows{{{1, 2051, 3, "UINT8", []int64{3}}}}, columns, "what lies there stays there")
}

func TestAMessageCannotPointOutsideTheSharedMemory(t *testing.T) {
	s := &shared{all: make([]byte, 100)}
	for _, c := range []struct {
		items int
		rows  []rows
		good  bool
	}{
		{1, []rows{{count: 1, at: 90, size: 10}}, true},
		{1, []rows{{count: 1, at: 91, size: 10}}, false},
		{1, []rows{{count: 1, at: 1 << 40, size: 10}}, false},
		{1, []rows{{count: 1, at: -2, size: 10}}, false},
		{1, []rows{{count: 1, at: 4, size: -1}}, false},
		{1, []rows{{count: 1, at: 100}}, true},
		{1, []rows{{count: 1, at: 101}}, false},
		{2, []rows{{count: 2, at: 101}}, false},
		{2, []rows{{count: 2, at: 80, size: 10}}, true},
		{2, []rows{{count: 2, at: 81, size: 10}}, false},
		{2, []rows{{count: 2, size: math.MaxInt / 2}}, false},
		{2, []rows{{count: 1, size: 1}, {count: 1, size: 2}}, true},
		{2, []rows{{count: 1, size: 1}}, false}, // some are missing
		{2, []rows{{count: 2, size: 1}, {count: 1, size: 1}}, false},
		{1, []rows{{count: 0, size: 1}, {count: 1, size: 1}}, false},
		{1, []rows{{count: -1}, {count: 2}}, false},
	} {
		_, err := s.take(c.items, [][]rows{c.rows}, false)
		assert.Equal(t, c.good, err == nil, c)
		_, err = new(shared).take(c.items, [][]rows{c.rows}, false)
		assert.Error(t, err, "there is none")
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

func TestAChildUsesHugePages(t *testing.T) {
	env := environment([]string{"A=1"}, []string{"B=2"}, "cpu/0")
	assert.Equal(t, []string{"GOMAXPROCS=1", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "B=2"}, env)
	env = environment([]string{"GLIBC_TUNABLES=x"}, nil, "gpu/GPU-7")
	assert.Equal(t, []string{"GOMAXPROCS=1", "CUDA_VISIBLE_DEVICES=GPU-7"}, env)
}
