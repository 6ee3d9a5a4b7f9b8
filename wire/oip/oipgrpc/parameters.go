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

// encodeParameters writes what else an answer says, beside the generation, which is the
// model's version, as the bytes that its field of parameters has in a message. The library
// goes through maps by reflection, which takes longer than all other fields together; so do
// clients when they read them, for each.
func encodeParameters(r *wire.InferResponse) []byte {
	var room [512]byte
	stages := room[:0]
	if len(r.Stages) > 0 {
		stages = oip.AppendStages(stages, r.Stages)
	}
	to := make([]byte, 0, 64+len(stages)) // two entries with their keys
	to = appendNumber(to, elapsedTime, int64(r.Elapsed))
	if len(stages) > 0 {
		to = appendEntry(to, stagesKey, protowire.SizeTag(stringField)+protowire.SizeBytes(len(stages)))
		to = protowire.AppendBytes(protowire.AppendTag(to, stringField, protowire.BytesType), stages)
	}
	return to
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
