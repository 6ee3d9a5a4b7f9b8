package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/serviceerror"
)

func TestRolesAwaitTheNamespace(t *testing.T) {
	missing := serviceerror.NewNamespaceNotFound("n")
	for name, c := range map[string]struct {
		until   time.Duration // when the namespace is there
		then    error
		patient time.Duration // until the role is stopped
		want    string        // error
		told    int
		took    time.Duration
	}{
		"it is there":         {patient: time.Hour},
		"no workflow runs":    {then: serviceerror.NewNotFound("fleet"), patient: time.Hour},
		"access is denied":    {then: errors.New("permission denied"), patient: time.Hour},
		"made after the port": {until: 5500 * time.Millisecond, patient: time.Hour, told: 1, took: 6 * time.Second},
		"misspelt":            {until: time.Hour, patient: time.Hour, told: 1, took: namespaceWithin, want: `no namespace "n"; make it, or set TEMPORAL_NAMESPACE`},
		"stopped meanwhile":   {until: time.Hour, patient: 2 * time.Second, told: 1, took: 2 * time.Second, want: `no namespace "n"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, told := time.Now(), 0
				ctx, cancel := context.WithTimeout(t.Context(), c.patient)
				defer cancel()
				err := awaitNamespace(ctx, func(context.Context) error {
					if time.Since(begin) < c.until {
						return missing
					}
					return c.then
				}, "n", "temporal:7233", func(line string) {
					told++
					assert.Equal(t, `the Temporal server at temporal:7233 has no namespace "n" yet; waiting 1m0s for it`, line)
				})
				assert.Equal(t, c.told, told)
				assert.Equal(t, c.took, time.Since(begin))
				if c.want == "" {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, c.want)
				}
			})
		})
	}
}
