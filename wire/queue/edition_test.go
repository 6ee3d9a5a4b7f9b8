package queue

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var recordMessages = flag.String("record-messages", "", "write the messages of this edition to a file")

// TestMessagesOfTheEditionBefore reads messages of every kind as that edition sends them, and
// sends them again: neither side of a connection can see the other's edition. One that speaks
// another version of the protocol is refused, so version stays while this passes. Before a
// release the messages of all are recorded:
//
//	go test ./wire/queue -run TestMessagesOfTheEditionBefore -record-messages testdata/messages-DATE.txt
func TestMessagesOfTheEditionBefore(t *testing.T) {
	if *recordMessages != "" {
		lines := fmt.Appendf(nil, "%x\n", preamble)
		for _, m := range all() {
			lines = fmt.Appendf(lines, "%x\n", inside(&m))
		}
		require.NoError(t, os.WriteFile(*recordMessages, lines, 0o600))
	}
	file, err := os.ReadFile("testdata/messages-2026-11-27.txt")
	require.NoError(t, err)
	lines := strings.Fields(string(file))
	assert.Equal(t, hex.EncodeToString(preamble[:]), lines[0])
	require.LessOrEqual(t, len(lines), len(all())+1)
	for i, m := range all()[:len(lines)-1] { // those that it has
		m.Lost = false // it is not sent yet
		bytes, err := hex.DecodeString(lines[i+1])
		require.NoError(t, err)
		assert.Equal(t, bytes, inside(&m))
		var got Message
		require.NoError(t, Parse(bytes, &got))
		assert.Equal(t, bytes, inside(&got))
	}
}
