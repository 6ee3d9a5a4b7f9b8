package experiments

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// partDrawn are settings drawn again, with a seed that nothing was fitted with.
const partDrawn = "drawn"

const drawnSettings = 24

// drawSettings draws settings of all kinds: from one network to 32, unlike or alike, by how
// long their batches take and how long they may; equally or unequally popular; a quarter of
// a device for each or up to four; at random or in bursts; some with delays of the network,
// some with batches that take longer or shorter than profiled.
func drawSettings() []DispatchSetting {
	rng := rand.New(rand.NewPCG(2027, 44))
	log := func(from, to float64) float64 { return from * math.Exp(rng.Float64()*math.Log(to/from)) }
	var list []DispatchSetting
	for len(list) < drawnSettings {
		n := int(log(1, 33))
		s := DispatchSetting{Part: partDrawn, Devices: max(1, int(float64(n)*log(0.25, 4))), Shape: 1}
		like, kinds := rng.IntN(2) == 0, "unlike"
		for k := range n {
			one := Network{Name: fmt.Sprintf("drawn-%d-%d", len(list), k), Each: log(0.05, 10), Fixed: log(0.2, 30)}
			if one.SLO = (4*one.Each + one.Fixed) * log(1.5, 6); like && k > 0 {
				one = s.Models[0]
			}
			s.Models = append(s.Models, one)
		}
		if !sane(s.Models) {
			continue
		}
		if like {
			kinds = fmt.Sprintf("alike, %.3g ms + %.3g ms each, SLO %.3g ms", s.Models[0].Fixed, s.Models[0].Each, s.Models[0].SLO)
		}
		if rng.IntN(2) == 0 {
			s.Popular = 0.9
		}
		if rng.IntN(2) == 0 {
			s.Shape = log(0.1, 1)
		}
		if rng.IntN(4) == 0 {
			s.Delay = Delays()
		}
		if rng.IntN(4) == 0 {
			s.Noise = log(0.02, 0.1)
		}
		s.Name = fmt.Sprintf("%d: %s (%s), %s, %d devices, gamma %.2g, noise %.2g", len(list)+1, many(n), kinds, asked(s.Popular), s.Devices, s.Shape, s.Noise)
		if s.Delay.Control > 0 {
			s.Name += ", network delays"
		}
		list = append(list, s)
	}
	return list
}

// sane reports that no batch of one alone takes another's time.
func sane(models []Network) bool {
	longest, least := 0.0, math.Inf(1)
	for _, m := range models {
		longest, least = max(longest, m.Each+m.Fixed), min(least, m.SLO)
	}
	return longest < least
}
