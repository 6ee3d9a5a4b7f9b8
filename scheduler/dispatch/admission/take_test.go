package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestTakenServicesCountAsIfTheyHadBeenHere has two Controllers, of which one takes the
// other's services at some time, do the same as one Controller that had all from the
// beginning: services that have no device in common never count for each other.
func TestTakenServicesCountAsIfTheyHadBeenHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		service := func(device int) Service {
			return Service{SLO: 100 * time.Millisecond, Modules: []Module{{Items: 1, Groups: []Group{{Share: 1, Durations: []Time{20 * time.Millisecond}, Devices: []int{device}}}}}}
		}
		var whole, first Controller
		second := NewAfter(1000)
		one, two := whole.Add(service(1)), whole.Add(service(2))
		parts := []*Controller{&first, &second}
		numbers := []int{first.Add(service(1)), second.Add(service(2))}
		now, admitted := Time(1), [2]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Custom(func(t *rapid.T) Time { return Time(rapid.IntRange(0, 30e6).Draw(t, "ns")) }).Draw(t, "gap")
			of := rapid.IntRange(0, 1).Draw(t, "service")
			in := []int{one, two}[of]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				deadline := now + 100*time.Millisecond
				took := whole.Admit(now, in, deadline)
				assert.Equal(t, took, parts[of].Admit(now, numbers[of], deadline))
				if took {
					admitted[of]++
				}
			case 3:
				if admitted[of] > 0 {
					admitted[of]--
					for c, n := range map[*Controller]int{&whole: in, parts[of]: numbers[of]} {
						c.Enter(n)
						c.Leave(now, n, now+50*time.Millisecond, InTime)
					}
				}
			default:
				if parts[0] != parts[1] {
					first.Merge(&second)
					parts[1] = &first
				}
			}
		}
		if parts[0] == parts[1] {
			assert.Greater(t, first.Add(service(3)), 1000, "numbers are not given twice")
		}
	})
}
