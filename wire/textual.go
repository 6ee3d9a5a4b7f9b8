package wire

import (
	"encoding/binary"
	"math"
)

// NotFinite is the first number of a tensor that JSON has no word for, NaN or an infinity;
// false where there is none.
func (t *Tensor) NotFinite() (float64, bool) {
	switch t.Datatype {
	case FP32:
		for i := 0; i+4 <= len(t.Data); i += 4 {
			if bits := binary.LittleEndian.Uint32(t.Data[i:]); bits>>23&0xff == 0xff {
				return float64(math.Float32frombits(bits)), true
			}
		}
	case FP64:
		for i := 0; i+8 <= len(t.Data); i += 8 {
			if bits := binary.LittleEndian.Uint64(t.Data[i:]); bits>>52&0x7ff == 0x7ff {
				return math.Float64frombits(bits), true
			}
		}
	}
	return 0, false
}
