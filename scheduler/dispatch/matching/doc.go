// Package matching is the query distribution of Kairos (section 5.1): queries of different sizes
// are paired with instances of different kinds at the least sum of costs.
//
//	matching.go         the policy: events in, actions out
//	decide.go           one decision: costs of pairs, solved by an Assignment
//	learned_latency.go  latencies by kind and size, from what was seen here or by another policy
//
// # Assignment
//
// An Assignment finds the cheapest way to pair rows with columns: the linear
// sum assignment problem on a rectangular matrix.
//
// The method is that of Jonker and Volgenant (Computing 38, 1987), in the
// rectangular form that Crouse describes (IEEE TAES 52, 2016): every row in
// turn is joined to a free column along a shortest augmenting path, with
// lengths reduced by dual prices so that they never turn negative. Prices u of
// rows and v of columns keep
//
//	cost(i,j) - u(i) - v(j) >= 0, with equality on assigned pairs,
//	v(j) <= 0, with equality on columns without a row,
//
// which proves the result optimal; Assignment.Prices hands them out as the proof.
//
// Costs are whole numbers (nanoseconds, in Harpagon), so that no rounding
// blurs a tie and the same matrix yields the same pairs everywhere.
//
// A matrix of n rows and m >= n columns takes O(n²·m) steps at the worst.
package matching
