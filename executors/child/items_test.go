package child

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
)

func TestItemsRoundTrip(t *testing.T) {
	tensor := rapid.Custom(func(t *rapid.T) wire.Tensor {
		return wire.Tensor{
			Datatype: rapid.SampledFrom([]string{"FP32", "BYTES", "BOOL", ""}).Draw(t, "datatype"),
			Shape:    rapid.SliceOfN(rapid.Int64(), 0, 5).Draw(t, "shape"),
			Data:     rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.SliceOfN(tensor, 0, 3), 0, 4).Draw(t, "items")
		raw, err := appendItems(nil, items, nil)
		require.NoError(t, err)
		assert.Len(t, raw, itemsSize(items, nil))
		back, err := new(parser).parse(raw)
		require.NoError(t, err)
		assert.Equal(t, items, back)
		if len(raw) > 0 {
			_, err = new(parser).parse(raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "cut")])
			assert.Error(t, err)
		}
	})
}

func FuzzParseItems(f *testing.F) {
	raw, _ := appendItems(nil, batch(1, 2, 3), nil)
	f.Add(raw)
	f.Add([]byte{255, 255, 255, 255})
	placed, _ := appendItems(nil, batch(1, 2, 3), []int{8})
	f.Add(placed)
	memory := make([]byte, 100)
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		if items, err := (&parser{shared: memory}).parse(raw); err == nil {
			to := area{all: memory, to: len(memory)}
			to.take(items) // whatever they point at can be read
		}
		items, err := new(parser).parse(raw)
		if err != nil {
			return
		}
		back, err := appendItems(nil, items, nil)
		if err != nil || !bytes.Equal(raw, back) {
			t.Fatalf("%x became %x (%v)", raw, back, err)
		}
	})
}

func TestFramesAreBounded(t *testing.T) {
	var b bytes.Buffer
	require.ErrorIs(t, writeFrame(&b, startFrame(nil, kindRun), -1), errTooLarge)
	require.NoError(t, writeFrame(&b, append(startFrame(nil, kindRun), "hello"...), 5))
	r := reader{from: bytes.NewReader(b.Bytes()), most: 4}
	_, _, err := r.read()
	assert.ErrorIs(t, err, errTooLarge)
	r = reader{from: bytes.NewReader(b.Bytes()[:7]), most: 5}
	_, _, err = r.read()
	assert.Error(t, err)
}
