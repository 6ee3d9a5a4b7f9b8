package onnxruntime

import (
	"unsafe"

	"github.com/harpagon/harpagon/wire"
)

// joined is what input j has in all the items, where it lies in one piece; nil
// otherwise.
func joined(items [][]wire.Tensor, like []int, j int) []byte {
	first := items[like[0]][j].Data
	begin, n := unsafe.SliceData(first), 0
	for _, i := range like {
		data := items[i][j].Data
		if len(data) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(data))) != uintptr(unsafe.Pointer(begin))+uintptr(n) {
			return nil
		}
		n += len(data)
	}
	return unsafe.Slice(begin, n)
}
