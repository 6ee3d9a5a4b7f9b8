package executors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/executors"
)

func TestUseOfTwoReadings(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := executors.ProcessorReading{At: at, Cores: 2, All: 100 * time.Second, Own: 40 * time.Second}
	for name, test := range map[string]struct {
		after executors.ProcessorReading
		want  executors.ProcessorUse
		says  string
	}{
		"others take one core": {
			executors.ProcessorReading{At: at.Add(10 * time.Second), Cores: 2, All: 115 * time.Second, Own: 45 * time.Second},
			executors.ProcessorUse{Elapsed: 10 * time.Second, Cores: 2, Own: 0.5, Others: 1}, "others used 1.0 of 2 cores meanwhile",
		},
		"no other process": {
			executors.ProcessorReading{At: at.Add(10 * time.Second), Cores: 2, All: 110 * time.Second, Own: 50 * time.Second},
			executors.ProcessorUse{Elapsed: 10 * time.Second, Cores: 2, Own: 1}, "others used 0.0 of 2 cores meanwhile",
		},
		"ticks that do not add up": {
			executors.ProcessorReading{At: at.Add(10 * time.Second), Cores: 2, All: 109 * time.Second, Own: 50 * time.Second},
			executors.ProcessorUse{Elapsed: 10 * time.Second, Cores: 2, Own: 1}, "others used 0.0 of 2 cores meanwhile",
		},
		"no time passed": {before, executors.ProcessorUse{}, "how much others used of this machine is not known"},
		"not known":      {executors.ProcessorReading{}, executors.ProcessorUse{}, "how much others used of this machine is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			use := test.after.Since(before)
			assert.Equal(t, test.want, use)
			assert.Equal(t, test.says, use.Describe())
			assert.Equal(t, test.want.Cores > 0, use.Known())
		})
	}
}
