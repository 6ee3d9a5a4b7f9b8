package gateway

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
)

// TestGivenUpSaysWhyAndWhatToDo checks, for every reason why an item is given up, the error
// that callers in the process, over HTTP and over gRPC receive.
func TestGivenUpSaysWhyAndWhatToDo(t *testing.T) {
	const at = time.Second
	for name, test := range map[string]struct {
		why          dispatcher.Drop
		ready        time.Duration // when it came to the module
		code         wire.Code
		says, remedy string
	}{
		"queue":       {dispatcher.Late, 100 * time.Millisecond, wire.CodeDeadline, "it waited 900 ms for a device here", "scale the pipeline up"},
		"compute":     {dispatcher.Late, 800 * time.Millisecond, wire.CodeDeadline, "it was here 800 ms after it came", "give it longer"},
		"full":        {dispatcher.Full, 0, wire.CodeOverloaded, "the queue is full", "send fewer"},
		"calls":       {dispatcher.CallsFull, 0, wire.CodeOverloaded, "as many calls run as the provider allows", "concurrency"},
		"refused":     {dispatcher.Refused, 0, wire.CodeOverloaded, "leave no time for it", "send fewer"},
		"no executor": {dispatcher.NoExecutor, 0, wire.CodeUnavailable, "no executor is attached", "status"},
		"crash":       {dispatcher.Lost, 0, wire.CodeUnavailable, "its executor was lost", "status"},
		"two crashes": {dispatcher.LostTwice, 0, wire.CodeUnavailable, "two executors were lost", "status"},
		"gone":        {dispatcher.Unserved, 0, wire.CodeUnavailable, "not served any more", "GET /v2/models"},
		"being ended": {dispatcher.Stopping, 0, wire.CodeUnavailable, "the gateway is stopping", "again"},
	} {
		t.Run(name, func(t *testing.T) {
			it := &Item{Of: &Request{Graph: &Graph{}}, Node: &Node{}}
			it.Of.Deadline, it.Ready = at, test.ready
			it.Node.Name = "detect"
			err := refusal(at, it, test.why)
			answer := httptest.NewRecorder()
			oip.WriteError(answer, err)
			for surface, got := range map[string]error{"gateway": err, "http": oip.DecodeError(answer.Code, answer.Body.Bytes()), "grpc": oipgrpc.DecodeError(oipgrpc.EncodeError(err))} {
				var typed *wire.Error
				require.ErrorAs(t, got, &typed, surface)
				assert.Equal(t, test.code, typed.Code, surface)
				assert.ErrorContains(t, got, test.says, surface)
				assert.ErrorContains(t, got, test.remedy, surface)
			}
		})
	}
}
