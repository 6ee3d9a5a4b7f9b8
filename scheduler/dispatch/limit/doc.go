// Package limit tells how many requests any dispatcher could have served in
// time, had it known all arrivals beforehand: the physical limit that policies
// of package dispatch are measured against.
//
// A batch of b requests runs for l(b), starts no sooner than its last request
// arrives and ends no later than its first is due; at most n run at a time.
// The last condition is relaxed: instead, running costs a price per unit of
// time, which may differ from cell to cell of the time axis. With prices given,
// the best choice of batches is a shortest path over the requests in order of
// arrival. For every choice of prices, its value plus the worth of n executors
// at those prices is at least what any schedule with at most n at a time
// achieves (Lagrangian duality); prices are raised where too many run and
// lowered where too few do, and the least value found is the bound.
//
// The bound covers all schedules whose batches are runs of requests in the
// order of arrival, some requests left out between them. A run that leaves one
// out inside can always leave out its first instead.
package limit
