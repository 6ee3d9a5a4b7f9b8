package busy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/executors/busy"
)

func TestUseOfTwoReadings(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := busy.Reading{At: at, Cores: 2, All: 100 * time.Second, Own: 40 * time.Second}
	for name, test := range map[string]struct {
		after busy.Reading
		want  busy.Use
		says  string
	}{
		"others take one core": {
			busy.Reading{At: at.Add(10 * time.Second), Cores: 2, All: 115 * time.Second, Own: 45 * time.Second},
			busy.Use{Elapsed: 10 * time.Second, Cores: 2, Own: 0.5, Others: 1}, "others used 1.0 of 2 cores meanwhile",
		},
		"nobody else": {
			busy.Reading{At: at.Add(10 * time.Second), Cores: 2, All: 110 * time.Second, Own: 50 * time.Second},
			busy.Use{Elapsed: 10 * time.Second, Cores: 2, Own: 1}, "others used 0.0 of 2 cores meanwhile",
		},
		"ticks that do not add up": {
			busy.Reading{At: at.Add(10 * time.Second), Cores: 2, All: 109 * time.Second, Own: 50 * time.Second},
			busy.Use{Elapsed: 10 * time.Second, Cores: 2, Own: 1}, "others used 0.0 of 2 cores meanwhile",
		},
		"no time passed": {before, busy.Use{}, "how much others used of this machine is not known"},
		"not known":      {busy.Reading{}, busy.Use{}, "how much others used of this machine is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			use := test.after.Since(before)
			assert.Equal(t, test.want, use)
			assert.Equal(t, test.says, use.Describe())
			assert.Equal(t, test.want.Cores > 0, use.Known())
		})
	}
}
