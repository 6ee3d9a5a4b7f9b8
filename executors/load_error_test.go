package executors

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func TestWhatFailsToLoadReturnsALoadError(t *testing.T) {
	h := &Host{Name: "h", Engines: []Engine{echo{echoSignature}}}
	task := Task{Module: pipelines.Module{Name: "m", Engine: "onxruntime"}}
	err := h.RunExecutor(t.Context(), task, Observer{})
	var load *LoadError
	require.ErrorAs(t, err, &load)
	assert.Equal(t, "m", load.Module)
	assert.ErrorContains(t, err, `module "m" needs engine "onxruntime", but host "h" has only: echo`)
	assert.False(t, load.Again(1))

	gone := &LoadError{Err: wire.Errorf(wire.CodeUnavailable, "m", "the child ended")}
	assert.True(t, gone.Again(1))
	assert.False(t, gone.Again(2), "it ends again")
	gone.Took = time.Minute
	assert.False(t, gone.Again(1), "such a wait is not repeated")
	assert.False(t, (&LoadError{Err: errors.New("no such file")}).Again(1))
}
