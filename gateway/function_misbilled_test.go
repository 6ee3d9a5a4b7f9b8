package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/pipelines"
)

// TestProviderBillsOtherwise: a provider that charges by the second where 100 ms are declared
// is reported, and one that bills as declared is not.
func TestProviderBillsOtherwise(t *testing.T) {
	for name, billing := range map[string]time.Duration{"as declared": 100 * time.Millisecond, "by the second": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := deploy(t, 1)
				h := host(t, provider.Options{ColdStart: -1, Seed: 1}, func(_ *pipelines.Function, p *pipelines.Provider) { p.Billing = billing })
				g := serveFunction(t, Options{Margin: -1}, d, h)
				askBoth(t, g, [2]float64{40, 60}, 10*time.Second, 1)
				m := measured(g)
				assert.Positive(t, m.Total().Told)
				if text := m.Describe(d.Function.Plan); billing == time.Second {
					assert.Contains(t, text, "by the declared terms they cost")
				} else {
					assert.NotContains(t, text, "declared terms")
				}
			})
		})
	}
}
