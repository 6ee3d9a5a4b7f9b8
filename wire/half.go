package wire

import "math"

// The layout of binary16: 1 sign bit, 5 of the exponent, 10 of the fraction.
const (
	halfInf      = 0x7c00
	halfFraction = 10
	halfBias     = 15
)

// half rounds to the nearest binary16, ties to even.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	exponent, fraction := int(bits>>23&0xff), bits&(1<<23-1)
	if exponent == 0xff {
		if fraction != 0 { // NaN stays one
			return sign | halfInf | 1<<(halfFraction-1) | uint16(fraction>>13)
		}
		return sign | halfInf
	}
	// The value is fraction / 2^shift in units of the last place of the result.
	fraction |= 1 << 23
	shift, e := 13, exponent-127+halfBias
	if e < 1 { // subnormal: all share the least exponent
		shift, e = shift+1-e, 1
	}
	if shift > 24 {
		return sign // below half of the least
	}
	whole, rest, tie := fraction>>shift, fraction&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > tie || rest == tie && whole&1 == 1 {
		whole++ // may carry into the exponent, which is then right
	}
	result := uint32(e-1)<<halfFraction + whole
	if result >= halfInf {
		return sign | halfInf
	}
	return sign | uint16(result)
}

// fromHalf is exact.
func fromHalf(b uint16) float32 {
	sign := uint32(b&0x8000) << 16
	exponent, fraction := uint32(b>>halfFraction&0x1f), uint32(b&(1<<halfFraction-1))
	switch exponent {
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	case 0:
		v := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (exponent-halfBias+127)<<23 | fraction<<13)
}

// brain rounds to the nearest bfloat16, ties to even.
func brain(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 1<<6 // NaN stays one
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
