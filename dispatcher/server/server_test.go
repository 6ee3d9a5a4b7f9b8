package server

import (
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/queue"
)

// TestEpochsNeverGoBack holds that of two gateways which lose an owner at the same time
// neither makes the server own a service by less than before.
func TestEpochsNeverGoBack(t *testing.T) {
	s := New(dispatcher.New(dispatcher.Options{Now: func() time.Duration { return 1 }}), Options{})
	s.Own("p", 7)
	s.Own("p", 6)
	assert.Equal(t, map[string]uint64{"p": 7}, s.Owns())
	highest := uint64(0)
	for range 100 {
		got := s.OwnAfter("p", 7)
		assert.GreaterOrEqual(t, got, highest)
		assert.Equal(t, got, s.Owns()["p"])
		highest = got
	}
	s.Disown("p")
	s.Own("p", 3)
	assert.Equal(t, map[string]uint64{"p": 3}, s.Owns(), "whoever grants it again decides")
}

// TestLivesOfAService has a gateway that is late serve what was deleted and applied again:
// the later life is in charge, whatever its generation is, and stays when the late gateway
// removes what it serves.
func TestLivesOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := New(dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1}), Options{Name: "d", Patience: -1})
		s.Claim()
		of := clustered(1)[0]
		gateways := map[string]net.Conn{}
		var ends sync.WaitGroup
		tell := func(gateway string, m queue.Message) {
			t.Helper()
			var frames []byte
			if gateways[gateway] == nil {
				near, far := net.Pipe()
				gateways[gateway] = near
				ends.Go(func() { _ = s.Serve(far) })
				go func() { _, _ = io.Copy(io.Discard, near) }()
				frames = queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte(gateway)})
			}
			_, err := gateways[gateway].Write(queue.Append(frames, &m))
			require.NoError(t, err)
			synctest.Wait()
		}
		install := func(life, generation int, number uint64) queue.Message {
			of.Life, of.Generation = life, generation
			text, err := json.Marshal(of)
			require.NoError(t, err)
			return queue.Message{Kind: queue.Install, Generation: number, Text: text}
		}
		serves := func(life, generation int) {
			t.Helper()
			g := s.dispatcher.Serving(of.Name())
			require.Equal(t, generation > 0, g != nil)
			if g != nil {
				require.Equal(t, placement.Age{Life: life, Generation: generation}, g.Deployment.Age())
			}
		}
		remove := queue.Message{Kind: queue.Remove, Text: []byte(of.Name())}
		tell("late", install(3, 5, 1))
		tell("prompt", install(3, 5, 1))
		tell("prompt", remove)
		serves(3, 5)
		tell("prompt", install(9, 1, 2))
		serves(9, 1)
		tell("late", install(3, 6, 2))
		serves(9, 1)
		tell("late", remove)
		serves(9, 1)
		tell("late", install(9, 1, 3))
		tell("prompt", remove) // though requests of it may be under way there
		serves(9, 1)
		tell("late", remove)
		serves(0, 0)
		for _, c := range gateways {
			require.NoError(t, c.Close())
		}
		ends.Wait()
	})
}
