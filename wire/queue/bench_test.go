package queue

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/wire/attach/attachpb"
)

// BenchmarkMessages writes and reads the twelve fields of an Arrive, and by protobuf's
// generated messages the four of a Part.
func BenchmarkMessages(b *testing.B) {
	b.Run("own", func(b *testing.B) {
		m := Message{Kind: Arrive, Generation: 3, Request: 123456, Station: 4, Item: 99887, Node: 2, Size: 1, Age: 1234567, Left: 99 * time.Millisecond, Timed: true}
		length := len(Append(nil, &m)) - len(inside(&m))
		var frame []byte
		var out Message
		b.ReportAllocs()
		for b.Loop() {
			frame = Append(frame[:0], &m)
			if err := Parse(frame[length:], &out); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		m := attachpb.Message{Kind: &attachpb.Message_Skip{Skip: &attachpb.Part{Epoch: 3, Batch: 123456, Part: 3, Parts: 4}}}
		var frame []byte
		var out attachpb.Message
		b.ReportAllocs()
		for b.Loop() {
			frame, _ = proto.MarshalOptions{}.MarshalAppend(frame[:0], &m)
			if err := proto.Unmarshal(frame, &out); err != nil {
				b.Fatal(err)
			}
		}
	})
}
