package scheduler_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// TestMissingAgainstAllNumbers compares the bisection with trying every number of hosts.
func TestMissingAgainstAllNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"a", "b"}
		var f scheduler.Fleet
		for i := range rapid.IntRange(0, 3).Draw(t, "there") {
			f.Devices = append(f.Devices, placement.Device{Host: "h", Name: string(rune('0' + i)), Hardware: kinds[i%2]})
		}
		for _, kind := range kinds {
			f.Offers = append(f.Offers, scheduler.Offer{Hardware: kind, Devices: rapid.IntRange(1, 3).Draw(t, "devices"), Hosts: rapid.IntRange(0, 5).Draw(t, "hosts")})
		}
		worth := map[string]int{"a": rapid.IntRange(0, 3).Draw(t, "a"), "b": rapid.IntRange(0, 3).Draw(t, "b")}
		needed := rapid.IntRange(0, 25).Draw(t, "needed")
		few := errors.New("too few")
		enough := func(f scheduler.Fleet) error {
			sum := 0
			for _, d := range f.Devices {
				sum += worth[d.Hardware]
			}
			if sum < needed {
				return few
			}
			return nil
		}
		got, err := f.Missing(enough)
		least := func(a, b int) []scheduler.Offer {
			return []scheduler.Offer{{Hardware: "a", Devices: f.Offers[0].Devices, Hosts: a}, {Hardware: "b", Devices: f.Offers[1].Devices, Hosts: b}}
		}
		for a := range f.Offers[0].Hosts + 1 {
			for b := range f.Offers[1].Hosts + 1 {
				if enough(f.With(least(a, b))) != nil {
					continue
				}
				require.NoError(t, err)
				hosts := map[string]int{}
				for _, o := range got {
					hosts[o.Hardware] = o.Hosts
					assert.Positive(t, o.Hosts)
				}
				// The first a for which any b will do has the least of the first, and that b of the next.
				assert.Equal(t, map[string]int{"a": a, "b": b}, map[string]int{"a": hosts["a"], "b": hosts["b"]})
				return
			}
		}
		assert.ErrorIs(t, err, few)
	})
}
