package wire

// Tensor is a dense array as the Open Inference Protocol carries it: elements
// in row-major order, little-endian, without padding. BYTES elements are each
// preceded by their length as a little-endian uint32.
type Tensor struct {
	Datatype string // "FP32", "UINT8", "INT64", "BYTES", ...
	Shape    []int64
	Data     []byte
}

// NamedTensor is a tensor with the name of the port that it belongs to.
type NamedTensor struct {
	Name string
	Tensor
}

// Tensors are those of named ones, in their order.
func Tensors(named []NamedTensor) []Tensor {
	all := make([]Tensor, len(named))
	for i := range named {
		all[i] = named[i].Tensor
	}
	return all
}

// DataSize is how many bytes the data of tensors are.
func DataSize(tensors []Tensor) (n int64) {
	for i := range tensors {
		n += int64(len(tensors[i].Data))
	}
	return n
}
