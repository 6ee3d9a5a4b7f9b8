package child

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/harpagon/harpagon/wire"
)

// Items travel as
//
//	items    u32, then per item
//	tensors  u32, then per tensor
//	         datatype length u8, datatype
//	         rank u8, extents i64 each
//	         data length u32, data
//
// all little-endian. Where the data length has its highest bit set, the data lie
// in the shared memory, and their offset there follows, u64.

var errDamaged = errors.New("child: damaged tensors in a message")

const (
	leastTensor = 6       // bytes of a tensor without datatype, extents and data
	elsewhere   = 1 << 31 // in a data length: the data lie in the shared memory
	offsetSize  = 8
)

// itemsSize is the number of bytes that appendItems adds. Places are those of
// area.place; nil means that all data are inline.
func itemsSize(items [][]wire.Tensor, places []int) int {
	n, at := 4, 0
	for _, item := range items {
		n += 4
		for i := range item {
			n += leastTensor + len(item[i].Datatype) + 8*len(item[i].Shape)
			if placeOf(places, at) == inline {
				n += len(item[i].Data)
			} else {
				n += offsetSize
			}
			at++
		}
	}
	return n
}

// placeOf is the place of the tensor that is written as the nth.
func placeOf(places []int, n int) int {
	if places == nil {
		return inline
	}
	return places[n]
}

func appendItems(b []byte, items [][]wire.Tensor, places []int) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(items)))
	at := 0
	for _, item := range items {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(item)))
		for i := range item {
			var err error
			place := placeOf(places, at)
			if b, err = appendHead(b, &item[i], place); err != nil {
				return nil, err
			}
			if place == inline {
				b = append(b, item[i].Data...)
			}
			at++
		}
	}
	return b, nil
}

func checkHead(t *wire.Tensor) error {
	if len(t.Datatype) > 255 || len(t.Shape) > 255 {
		return errors.New("child: a tensor has a datatype or shape of more than 255 parts")
	}
	return nil
}

// checkItems says whether the items can be written, before any of them is.
func checkItems(items [][]wire.Tensor) error {
	for _, item := range items {
		for i := range item {
			if err := checkHead(&item[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendHead adds a tensor without its inline data.
func appendHead(b []byte, t *wire.Tensor, place int) ([]byte, error) {
	if err := checkHead(t); err != nil {
		return nil, err
	}
	b = append(append(b, byte(len(t.Datatype))), t.Datatype...)
	b = append(b, byte(len(t.Shape)))
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	if place == inline {
		return binary.LittleEndian.AppendUint32(b, uint32(len(t.Data))), nil
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Data))|elsewhere)
	return binary.LittleEndian.AppendUint64(b, uint64(place)), nil
}

// direct is the size from which a tensor's data is written as it lies instead of
// being copied into the frame first.
const direct = 64 << 10

// writeItems writes a frame of items and returns its buffer for the next.
func writeItems(w io.Writer, frame []byte, k kind, items [][]wire.Tensor, places []int, most int) ([]byte, error) {
	n := itemsSize(items, places)
	if n > most {
		return frame, tooLarge(n, most)
	}
	frame = startFrame(frame, k)
	binary.LittleEndian.PutUint32(frame, uint32(n))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(items)))
	at := 0
	for _, item := range items {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(item)))
		for i := range item {
			var err error
			place := placeOf(places, at)
			if frame, err = appendHead(frame, &item[i], place); err != nil {
				return frame, err
			}
			at++
			if place != inline {
				continue
			}
			if len(item[i].Data) < direct {
				frame = append(frame, item[i].Data...)
				continue
			}
			if _, err := w.Write(frame); err != nil {
				return frame, err
			}
			if _, err := w.Write(item[i].Data); err != nil {
				return frame, err
			}
			frame = frame[:0]
		}
	}
	_, err := w.Write(frame)
	return frame, err
}
