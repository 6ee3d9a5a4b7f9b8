package matching

import "math"

const none = int32(-1)

// Assignment solves assignment problems one after the other in the same memory. Its
// zero value is ready. It is not safe for concurrent use.
type Assignment struct {
	u, v   []int64 // prices of rows and columns
	rowOf  []int32 // row of a column, or none
	colOf  []int32 // column of a row, or none
	dist   []int64 // least reduced length of a path to the column
	before []int32 // row from which that path reaches the column
	todo   []int32 // columns that are not reached yet, then those that are
	turned []int64 // transposed matrix, where there are more rows than columns
}

// Solve pairs each row with a column of its own, or, where there are more rows
// than columns, each column with a row, at the least sum of costs. cost holds
// rows·cols numbers, row after row, of at most 2^47 in size. The result has
// the column of each row, -1 for a row without one, and holds until the next
// call.
func (s *Assignment) Solve(cost []int64, rows, cols int) []int32 {
	if rows <= cols {
		s.solve(cost, rows, cols)
		return s.colOf
	}
	s.turned = sized(s.turned, rows*cols)
	for i := range rows {
		for j := range cols {
			s.turned[j*rows+i] = cost[i*cols+j]
		}
	}
	s.solve(s.turned, cols, rows)
	s.u, s.v = s.v, s.u
	return s.rowOf
}

// Prices are the dual prices of the last solution: u of rows, v of columns.
// They hold until the next call of Solve.
func (s *Assignment) Prices() (u, v []int64) { return s.u, s.v }

// solve needs rows <= cols.
func (s *Assignment) solve(cost []int64, rows, cols int) {
	s.reset(rows, cols)
	for i := range rows {
		s.cheapest(cost[i*cols:(i+1)*cols], int32(i))
	}
	for i := range rows {
		if s.colOf[i] == none {
			s.augment(cost, int32(i), cols)
		}
	}
}

func (s *Assignment) reset(rows, cols int) {
	s.u, s.v = sized(s.u, rows), sized(s.v, cols)
	s.rowOf, s.colOf = sized(s.rowOf, cols), sized(s.colOf, rows)
	s.dist, s.before, s.todo = sized(s.dist, cols), sized(s.before, cols), sized(s.todo, cols)
	clear(s.v)
	for j := range s.rowOf {
		s.rowOf[j], s.todo[j] = none, int32(j)
	}
	for i := range s.colOf {
		s.colOf[i] = none
	}
}

// cheapest prices a row by its cheapest column and takes it where it is free.
func (s *Assignment) cheapest(row []int64, i int32) {
	best, at := int64(math.MaxInt64), none
	for j, c := range row {
		if c < best || c == best && s.rowOf[j] == none && s.rowOf[at] != none {
			best, at = c, int32(j)
		}
	}
	s.u[i] = best
	if s.rowOf[at] == none {
		s.rowOf[at], s.colOf[i] = i, at
	}
}

// augment joins a free row to a free column along a shortest path (Dijkstra),
// and lowers prices so that the next lengths stay at or above zero.
func (s *Assignment) augment(cost []int64, start int32, cols int) {
	todo := s.todo
	for _, j := range todo {
		s.dist[j] = math.MaxInt64
	}
	left, low, row := len(todo), int64(0), start
	end := none
	for end == none {
		s.relax(cost[int(row)*cols:(int(row)+1)*cols], row, low, todo[:left])
		k := s.nearest(todo[:left])
		j := todo[k]
		low = s.dist[j]
		left--
		todo[k], todo[left] = todo[left], j
		if row = s.rowOf[j]; row == none {
			end = j
		}
	}
	s.reprice(start, low, todo[left:])
	for j := end; ; {
		i := s.before[j]
		s.rowOf[j] = i
		s.colOf[i], j = j, s.colOf[i]
		if i == start {
			return
		}
	}
}

// relax looks from a row, at distance low, at all columns not reached yet.
func (s *Assignment) relax(costs []int64, row int32, low int64, todo []int32) {
	base := low - s.u[row]
	v, dist := s.v, s.dist
	for _, j := range todo {
		if d := base + costs[j] - v[j]; d < dist[j] {
			dist[j], s.before[j] = d, row
		}
	}
}

// nearest is the place of the column that is least far; of several, a free one
// ends the search.
func (s *Assignment) nearest(todo []int32) int {
	best, at := int64(math.MaxInt64), 0
	for k, j := range todo {
		if d := s.dist[j]; d < best || d == best && s.rowOf[j] == none {
			best, at = d, k
		}
	}
	return at
}

// reprice keeps reduced costs at or above zero once the path of length low is
// taken; reached are the columns that the search has left behind.
func (s *Assignment) reprice(start int32, low int64, reached []int32) {
	s.u[start] += low
	for _, j := range reached {
		if i := s.rowOf[j]; i != none {
			s.u[i] += low - s.dist[j]
			s.v[j] -= low - s.dist[j]
		}
	}
}

// sized is a slice of length n, in the memory of s where that suffices.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s)))
	}
	return s[:n]
}
