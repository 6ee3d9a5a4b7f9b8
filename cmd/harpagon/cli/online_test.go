package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlineCommandsSayWhatIsMissing(t *testing.T) {
	state := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "--state", state}, "no system runs on this state folder"},
		{[]string{"explain", "--state", state}, "no system runs"},
		{[]string{"down", "--state", state}, "no system runs"},
		{[]string{"control"}, "TEMPORAL_ADDRESS"},
		{[]string{"worker"}, "TEMPORAL_ADDRESS"},
		{[]string{"gateway"}, "TEMPORAL_ADDRESS"},
		{[]string{"up", state}, "built without the embedded system"},
		{[]string{"profile"}, "name an HCL file"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), Deps{Stdout: &out, Stderr: &errs, Environ: []string{}}, c.args)
		assert.Equal(t, ExitError, code, c.args)
		assert.Contains(t, errs.String(), c.want, c.args)
	}
}
