package attach

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
)

var recordMessages = flag.String("record-messages", "", "write the messages of this edition to a file")

// TestMessagesOfTheEditionBefore reads messages of every kind as that edition sends them, and
// sends them again: neither side of a connection can see the other's edition. Before a release
// the messages of said are recorded, with the fields that the release adds:
//
//	go test ./wire/attach -run TestMessagesOfTheEditionBefore -record-messages testdata/messages-DATE.txt
func TestMessagesOfTheEditionBefore(t *testing.T) {
	if *recordMessages != "" {
		var lines []byte
		for _, m := range said(time.Unix(1e9, 0)) {
			lines = fmt.Appendf(lines, "%x\n", encoded(t, &m))
		}
		require.NoError(t, os.WriteFile(*recordMessages, lines, 0o600))
	}
	file, err := os.ReadFile("testdata/messages-2026-11-27.txt")
	require.NoError(t, err)
	now := time.Unix(1e9, 0)
	lines := strings.Fields(string(file))
	require.Len(t, lines, len(said(now)))
	for i, m := range said(now) {
		bytes, err := hex.DecodeString(lines[i])
		require.NoError(t, err)
		var p pb.Message
		require.NoError(t, proto.Unmarshal(bytes, &p))
		got, err := Decode(&p, now)
		require.NoError(t, err)
		assert.Equal(t, m, *got)
		assert.Equal(t, bytes, encoded(t, got))
	}
}

func encoded(t *testing.T, m *Message) []byte {
	sent, err := Encode(m, time.Unix(1e9, 0))
	require.NoError(t, err)
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(sent)
	require.NoError(t, err)
	return bytes
}

// said has a message of every kind with all fields of the edition of 2026-11-27.
func said(now time.Time) []Message {
	ports := []pipelines.Port{{Name: "x", Datatype: wire.FP32, Shape: []int64{-1, 2}}}
	signature := pipelines.Signature{Inputs: ports, Outputs: ports}
	items := [][]wire.Tensor{{{Datatype: "BOOL", Shape: []int64{2}, Data: []byte{1, 2}}}, {{Datatype: "BOOL", Shape: []int64{1}, Data: []byte{3}}}}
	failed := &wire.Error{Code: wire.CodeInvalid, Reason: "why", Stage: "s", Budget: time.Second, Elapsed: time.Minute}
	part := Part{Epoch: 2, Batch: 3, Part: 1, Parts: 2}
	return []Message{
		{Hello: &Hello{
			Executor: "e", Pipeline: "p", Module: "m", Host: "h", Device: "d", Hardware: "gpu", Engine: "onnxruntime", MaxBatch: 8, Concurrency: 2,
			Signature: signature, Residents: []Resident{{Name: "r", Signature: signature}},
		}},
		{Batch: &Batch{ID: 7, Module: "r", Due: now.Add(time.Second), Items: items, Part: part}},
		{Result: &Result{ID: 7, Items: items, Errs: []*wire.Error{nil, failed}, Waited: 1, Compute: 2, Away: true}},
		{Result: &Result{ID: 8, Err: failed, Untouched: true}},
		{Drain: &Drain{Reason: "r"}}, {Ready: &Ready{}}, {Soon: &Soon{ID: 7, Compute: 3}},
		{Owner: &Owner{Epoch: 5}}, {Skip: &Skip{Part: part}},
		{Done: &Done{Epoch: 5, Batch: 3, Waited: 1, Compute: 2, Failed: 4, Away: true}},
		{Ping: &Ping{}}, {Pong: &Ping{}},
	}
}
