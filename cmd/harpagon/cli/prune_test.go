package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
)

// runningServices are services by name.
type runningServices []string

func (r *runningServices) List(context.Context) ([]string, error) {
	return append([]string{}, *r...), nil
}

func (r *runningServices) Delete(_ context.Context, name, _ string) (pipelines.Kind, error) {
	kept := (*r)[:0]
	for _, one := range *r {
		if one != name {
			kept = append(kept, one)
		}
	}
	*r = kept
	return pipelines.KindPipeline, nil
}

// What is declared is never deleted, other services only after confirmation, and asking
// deletes nothing.
func TestPrune(t *testing.T) {
	declared := []scheduler.Spec{{Pipeline: &pipelines.Pipeline{Name: "b"}}}
	for name, c := range map[string]struct {
		flags    pruneFlags
		terminal bool
		typed    string
		wait     time.Duration
		left     runningServices
		says     string
	}{
		"not requested":      {pruneFlags{}, false, "", 0, runningServices{"a", "b", "c"}, ""},
		"confirmed by --yes": {pruneFlags{prune: true, yes: true}, false, "", time.Minute, runningServices{"b"}, ""},
		"typed":              {pruneFlags{prune: true}, true, "yes\n", time.Minute, runningServices{"b"}, ""},
		"typed otherwise":    {pruneFlags{prune: true}, true, "y\n", time.Minute, runningServices{"a", "b", "c"}, "nothing was changed: --prune would delete a, c; give --yes"},
		"no terminal":        {pruneFlags{prune: true}, false, "yes\n", time.Minute, runningServices{"a", "b", "c"}, "give --yes to delete without asking"},
		"without waiting":    {pruneFlags{prune: true, yes: true}, false, "", 0, runningServices{"a", "b", "c"}, "give --wait a time"},
	} {
		t.Run(name, func(t *testing.T) {
			all := runningServices{"a", "b", "c"}
			d := &Deps{Stdin: strings.NewReader(c.typed), Stderr: &bytes.Buffer{}, Terminal: c.terminal}
			names, err := c.flags.ask(t.Context(), d, &all, declared, c.wait)
			require.Equal(t, runningServices{"a", "b", "c"}, all)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			require.NoError(t, c.flags.run(t.Context(), d, &all, names))
			require.Equal(t, c.left, all)
		})
	}
}
