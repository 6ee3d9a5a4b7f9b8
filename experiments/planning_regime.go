package experiments

// Regime is what workloads are drawn from. Ranges are drawn log-uniformly, but for the
// objective.
type Regime struct {
	Name     string
	Rate     [2]float64 // requests per second at the source
	SLO      [2]float64 // times the application's fastest path
	Start    [2]float64 // of a batch, on the fastest device, in milliseconds
	Step     [2]float64 // of each request of a batch, likewise
	Families []string   // that profiles are drawn from

	Batches [][]int // sets to draw from; none for powers of two to 32 or 64

	Devices func(drawer) []drawnDevice // nil for two or three kinds that are drawn

	Concurrent bool // profiles for several batches at a time besides; see WithConcurrency
}

// wide is the regime of our own suite: it holds more than the papers evaluate with.
func wide() Regime {
	return Regime{Name: "wide", Rate: [2]float64{20, 1000}, SLO: [2]float64{2, 10},
		Start: [2]float64{5, 50}, Step: [2]float64{0.5, 20}, Families: Families()}
}

// Published is the regime of the papers as far as their text and tables state it. What
// they leave open is chosen, and said here:
//
//	rate      50 to 200 at the source: the examples have 100 and 198 a module (Harpagon,
//	          section II), 285 and 300 (Piccolo, section II)
//	profiles  durations of 55 to 100 ms and 20 to 27 ms a request, and batches of 2, 4, 8
//	          or 2, 8, 32: lines through the three modules of Table I; batch 1 besides,
//	          with which Algorithm 2 begins. The tables do not say of which hardware
//	drawnHardware  two kinds, as the testbed of P100 and V100 (section IV-A): the dearer costs
//	          1.48 times as much, by public list prices of a cloud (2.07 and 3.06 an
//	          hour), and the cheaper is chosen to be 0.4 to 0.7 times as fast
//	modules   the five applications of the papers, two to four modules each
//	SLO       2 to 5 times the fastest path is chosen: the example of M1 has 0.4 s, 2.5
//	          times its batch of two
func Published() Regime {
	return Regime{Name: "published", Rate: [2]float64{50, 200}, SLO: [2]float64{2, 5},
		Start: [2]float64{55, 100}, Step: [2]float64{20, 27}, Families: []string{Affine},
		Batches: [][]int{{1, 2, 4, 8}, {1, 2, 8, 32}}, Devices: testbed}
}

// testbed is two kinds, the dearer first.
func testbed(d drawer) []drawnDevice {
	return []drawnDevice{{name: "v100", speed: 1, price: 3.06}, {name: "p100", speed: d.between(0.4, 0.7), price: 2.07}}
}
