package cli

// Share is the part of the total rate that a pipeline is offered.
func Share(rate, total float64, n int) float64 {
	if total > 0 {
		return rate / total
	}
	return 1 / float64(n)
}
