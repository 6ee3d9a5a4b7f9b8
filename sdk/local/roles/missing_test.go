package roles

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
)

// served is a gateway that serves one service on one executor.
type served struct{}

func (served) Services() []string { return []string{"traffic"} }
func (served) Deployment(string) (placement.Deployment, bool) {
	return placement.Deployment{Generation: 3, Slots: []placement.Slot{{Executor: "one"}}}, true
}

// TestAGatewayTellsWhatItMisses once, when it has missed it twice, and when it does not any more.
func TestAGatewayTellsWhatItMisses(t *testing.T) {
	var said []workflows.Missing
	m := &misses{gateway: "g", from: served{}, tell: func(_ context.Context, _ string, m workflows.Missing) error {
		said = append(said, m)
		return nil
	}}
	for range 4 {
		m.look(t.Context())
	}
	assert.Equal(t, []workflows.Missing{{Gateway: "g", Generation: 3, Executors: []string{"one"}}}, said)
	m.count("one", 1)
	for range 2 {
		m.look(t.Context())
	}
	assert.Len(t, said, 2)
	assert.Empty(t, said[1].Executors)
	m.count("one", 1) // it comes again before its old connection goes
	m.count("one", -1)
	for range 2 {
		m.look(t.Context())
	}
	assert.Len(t, said, 2)
}
