package wire

// Names of the datatypes, as the Open Inference Protocol spells them.
const (
	Bool   = "BOOL"
	Uint8  = "UINT8"
	Uint16 = "UINT16"
	Uint32 = "UINT32"
	Uint64 = "UINT64"
	Int8   = "INT8"
	Int16  = "INT16"
	Int32  = "INT32"
	Int64  = "INT64"
	FP16   = "FP16"
	BF16   = "BF16"
	FP32   = "FP32"
	FP64   = "FP64"
	Bytes  = "BYTES"
)

// Size is the number of bytes of one element of the datatype: 0 for BYTES,
// whose elements differ in length, and -1 for a datatype that does not exist.
func Size(datatype string) int {
	switch datatype {
	case Bool, Uint8, Int8:
		return 1
	case Uint16, Int16, FP16, BF16:
		return 2
	case Uint32, Int32, FP32:
		return 4
	case Uint64, Int64, FP64:
		return 8
	case Bytes:
		return 0
	}
	return -1
}
