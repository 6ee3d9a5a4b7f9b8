package child

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
)

// drawItems are alike in width; shapes and datatypes change in between.
func drawItems(t *rapid.T) [][]wire.Tensor {
	width := rapid.IntRange(0, 3).Draw(t, "width")
	items := make([][]wire.Tensor, rapid.IntRange(0, 5).Draw(t, "items"))
	for i := range items {
		items[i] = make([]wire.Tensor, width)
		for j := range items[i] {
			items[i][j] = wire.Tensor{
				Datatype: rapid.SampledFrom([]string{"FP32", "BYTES", "BYTES", ""}).Draw(t, "datatype"),
				Shape:    rapid.SampledFrom([][]int64{{}, {1}, {1}, {-1, math.MinInt64}}).Draw(t, "shape"),
				Data:     rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data"),
			}
		}
	}
	return items
}

// TestItemsRoundTrip holds what comes out of the memory and a message to what was put in, also where
// some of it lay there already.
func TestItemsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shared{all: make([]byte, 1<<14)}
		items := drawItems(t)
		to := s.results(1)
		given := make([][]wire.Tensor, len(items))
		for i, item := range items {
			given[i] = append(given[i], item...)
			for j := range item {
				if rapid.Bool().Draw(t, "there") {
					if data := to.allocate(len(item[j].Data)); data != nil {
						copy(data, item[j].Data)
						given[i][j].Data = data
					}
				}
			}
			if len(item) == 0 {
				given[i] = item
			}
		}
		columns, err := to.put(given)
		require.NoError(t, err)
		written := heads{1, 2, len(items), columns}
		raw := written.append(nil)
		var read heads
		require.NoError(t, read.parse(raw))
		require.Equal(t, []int{1, 2, len(items)}, []int{read.model, read.part, read.items})
		require.Error(t, new(heads).parse(raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "cut")]))
		there, err := s.take(read.items, read.columns, false)
		require.NoError(t, err)
		require.Equal(t, items, there)
		copied, err := s.get(len(items), raw)
		require.NoError(t, err)
		_, err = s.get(len(items)+1, raw)
		require.Error(t, err)
		clear(s.all)
		require.Equal(t, items, copied)

		small := area{all: make([]byte, 40), to: 40}
		if _, err := small.put(items); err != nil {
			require.ErrorIs(t, err, errTooLarge)
		}
	})
}

func TestItemsAreAlikeInWidth(t *testing.T) {
	s := &shared{all: make([]byte, 1<<10)}
	to := s.requests(0)
	_, err := to.put([][]wire.Tensor{batch(1)[0], nil})
	assert.EqualError(t, err, "item 2 has 0 tensors where the first has 1")
}

// Any message of a child must be read safely: its engine may have damaged it.
func FuzzParseItems(f *testing.F) {
	memory := make([]byte, 100)
	for _, r := range []rows{{1, 8, 12, "FP32", []int64{3}}, {2, 88, 6, "FP32", nil}, {3, 100, 0, "", nil}, {1, 101, 0, "", nil}, {-1, -8, -8, "", nil}} {
		f.Add((&heads{items: r.count, columns: [][]rows{{r}}}).append(nil))
	}
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		var h heads
		if h.parse(raw) != nil {
			return
		}
		var again heads
		if err := again.parse(h.append(nil)); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, h, again)
		if h.items < 0 || h.items > 1000 { // its parent has the true number
			return
		}
		for _, s := range []*shared{{all: memory}, {}} {
			items, err := s.take(h.items, h.columns, false)
			if err != nil {
				continue
			}
			a := area{all: s.all, to: len(s.all)}
			for _, item := range items {
				for _, tensor := range item {
					if at, here := a.offset(tensor.Data); len(tensor.Data) > 0 && (!here || at+len(tensor.Data) > len(s.all)) {
						t.Fatalf("%d bytes from %d on of %d", len(tensor.Data), at, len(s.all))
					}
				}
			}
		}
	})
}

func TestMessagesAreBoundedOnTheirWay(t *testing.T) {
	var pipe bytes.Buffer
	c := newConn(&pipe, &pipe)
	require.NoError(t, c.sendJSON(kindHello, "hello"))
	require.NoError(t, c.sendJSON(kindFailed, 5))
	m, err := c.receive()
	require.NoError(t, err)
	require.Equal(t, message{kindHello, []byte(`"hello"`)}, m)
	whole := bytes.Clone(append([]byte{1, 0, 0, 0, byte(kindFailed)}, '5'))
	for n := range whole {
		_, err := newConn(bytes.NewReader(whole[:n]), nil).receive()
		require.True(t, endOfLine(err), err)
	}
	_, err = newConn(bytes.NewReader([]byte{1, 0, 0, 4, byte(kindHello)}), nil).receive()
	require.ErrorContains(t, err, "67108865 bytes, where 67108864 are allowed")
}

func TestCountsAreThoseOfAMessage(t *testing.T) {
	for _, many := range []int{-1, 7, 1 << 50} {
		head := []int{0, 0, 1}
		for _, after := range [][]int{{many}, {1, many}, {1, 1, 1, 0, 0, many, 0}, {1, 1, 1, 0, 0, 0, many}} {
			var b []byte
			for _, v := range append(head, after...) {
				b = binary.AppendVarint(b, int64(v))
			}
			require.ErrorIs(t, new(heads).parse(b), errDamaged)
		}
	}
}
