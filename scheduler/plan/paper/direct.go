package paper

import "time"

// byEfficiency ranks operations by latency-cost efficiency, Algorithm 2.
func byEfficiency(o operation) float64 { return o.efficiency() }

// byCost ranks operations by the cost that they save.
func byCost(o operation) float64 { return o.gain }

// byThroughput ranks operations by the throughput-cost ratio that they reach,
// as throughput-based splitting does.
func byThroughput(o operation) float64 { return o.ratio }

// direct is the cost-direct step of section III-D: the final R operations are
// reversed and chosen again by the cost that they save, because with little
// budget left the greatest saving beats the most efficient one. The paper
// leaves R open; every R above 0 is tried. It returns the splits of the final states.
func (p *search) direct(path []state, units [][]int) [][]time.Duration {
	var splits [][]time.Duration
	for r := 1; r < len(path); r++ {
		redone := p.descend(path[len(path)-1-r], units, byCost)
		splits = append(splits, redone[len(redone)-1].worst)
	}
	return splits
}
