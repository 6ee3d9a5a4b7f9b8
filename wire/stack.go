package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Stack puts tensors of one datatype and shape behind each other along a new
// first dimension. There must be at least one.
func Stack(rows []Tensor) (Tensor, error) {
	first, total := rows[0], 0
	for i, row := range rows {
		if row.Datatype != first.Datatype || !slices.Equal(row.Shape, first.Shape) {
			return Tensor{}, fmt.Errorf("wire: item 1 is %s %v and item %d is %s %v",
				first.Datatype, first.Shape, i+1, row.Datatype, row.Shape)
		}
		total += len(row.Data)
	}
	t := Tensor{Datatype: first.Datatype, Data: make([]byte, 0, total)}
	t.Shape = append(append(make([]int64, 0, 1+len(first.Shape)), int64(len(rows))), first.Shape...)
	for _, row := range rows {
		t.Data = append(t.Data, row.Data...)
	}
	return t, nil
}

// Rows takes a tensor apart along its first dimension, which it must have. The
// rows alias its memory.
func Rows(t Tensor) ([]Tensor, error) {
	if len(t.Shape) == 0 || t.Shape[0] < 0 {
		return nil, fmt.Errorf("wire: shape %v has no first dimension to take apart", t.Shape)
	}
	// Every row but those of empty tensors takes memory, so that the shape alone
	// cannot ask for much.
	if n := t.Shape[0]; n > int64(len(t.Data)) && n > maxEmptyRows {
		return nil, fmt.Errorf("wire: %s %v has only %d bytes", t.Datatype, t.Shape, len(t.Data))
	}
	rows := make([]Tensor, t.Shape[0])
	row := Tensor{Datatype: t.Datatype, Shape: t.Shape[1:]}
	rest, size := t.Data, Size(t.Datatype)*row.Len()
	for i := range rows {
		if t.Datatype == Bytes {
			size = bytesLen(rest, row.Len())
		}
		if size < 0 || size > len(rest) {
			return nil, fmt.Errorf("wire: %s %v has only %d bytes", t.Datatype, t.Shape, len(t.Data))
		}
		row.Data = rest[:size:size]
		rows[i], rest = row, rest[size:]
	}
	return rows, nil
}

// maxEmptyRows bounds the rows of a tensor that holds fewer bytes than rows.
const maxEmptyRows = 1 << 16

// bytesLen is the length of the first n elements of BYTES data; -1 when there
// are fewer.
func bytesLen(data []byte, n int) int {
	at := 0
	for range n {
		if len(data)-at < 4 {
			return -1
		}
		size := int(binary.LittleEndian.Uint32(data[at:]))
		if size < 0 || len(data)-at-4 < size {
			return -1
		}
		at += 4 + size
	}
	return at
}
