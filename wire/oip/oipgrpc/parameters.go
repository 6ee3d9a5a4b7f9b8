package oipgrpc

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Numbers of fields: parameters of a ModelInferResponse, key and value of their entries,
// and what a value may be.
const (
	parametersField = 4
	keyField        = 1
	valueField      = 2
	int64Field      = 2
	stringField     = 3
)

// appendParameters adds what else an answer says, beside the generation, which is the
// model's version. Clients that know nothing of it go through maps by reflection when they
// read them, which takes long for each.
func appendParameters(to []byte, r *wire.InferResponse) []byte {
	to = appendNumber(to, elapsedTime, int64(r.Elapsed))
	if len(r.Stages) == 0 {
		return to
	}
	var room [512]byte
	stages := oip.AppendStages(room[:0], r.Stages)
	to = appendEntry(to, stagesKey, protowire.SizeTag(stringField)+protowire.SizeBytes(len(stages)))
	return protowire.AppendBytes(protowire.AppendTag(to, stringField, protowire.BytesType), stages)
}

func appendNumber(to []byte, key string, n int64) []byte {
	to = appendEntry(to, key, protowire.SizeTag(int64Field)+protowire.SizeVarint(uint64(n)))
	return protowire.AppendVarint(protowire.AppendTag(to, int64Field, protowire.VarintType), uint64(n))
}

// appendEntry begins an entry, whose value of so many bytes must follow.
func appendEntry(to []byte, key string, value int) []byte {
	size := protowire.SizeTag(keyField) + protowire.SizeBytes(len(key)) + protowire.SizeTag(valueField) + protowire.SizeBytes(value)
	to = protowire.AppendVarint(protowire.AppendTag(to, parametersField, protowire.BytesType), uint64(size))
	to = protowire.AppendString(protowire.AppendTag(to, keyField, protowire.BytesType), key)
	return protowire.AppendVarint(protowire.AppendTag(to, valueField, protowire.BytesType), uint64(value))
}

// entry is the key of an entry and the message that is its value; ok is false where it is
// not as appendEntry makes it.
func entry(b []byte) (key, value []byte, ok bool) {
	first, key, rest, ok := next(b)
	second, value, rest, sound := next(rest)
	return key, value, ok && sound && first == keyField && second == valueField && len(rest) == 0
}

// integer is the value of an entry that appendNumber makes.
func integer(value []byte) (n int64, ok bool) {
	field, kind, size := protowire.ConsumeTag(value)
	if size < 0 || field != int64Field || kind != protowire.VarintType {
		return 0, false
	}
	v, rest := protowire.ConsumeVarint(value[size:])
	return int64(v), rest == len(value)-size
}
