package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
)

// listed is an engine that is only listed.
type listed struct {
	executors.Engine
	name    string
	missing error
}

func (l listed) Name() string     { return l.name }
func (l listed) Version() string  { return "7" }
func (l listed) Available() error { return l.missing }

func TestEnginesSayWhatIsMissing(t *testing.T) {
	all := reportEngines([]executors.Engine{
		listed{name: "gorgonia"}, listed{name: "onnxruntime", missing: errors.New("onnxruntime: not found")},
	})
	require.Len(t, all, 2)
	assert.True(t, all[0].Auto)
	assert.False(t, all[1].Ready)
	var b bytes.Buffer
	require.NoError(t, describeEngines(&b, all))
	assert.Contains(t, b.String(), "gorgonia     ready, auto  7")
	assert.Contains(t, b.String(), "onnxruntime is missing: not found\n  to get it: npm install")

	all = reportEngines([]executors.Engine{listed{name: "gorgonia"}, listed{name: "onnxruntime"}})
	assert.False(t, all[0].Auto)
	assert.True(t, all[1].Auto)
}
