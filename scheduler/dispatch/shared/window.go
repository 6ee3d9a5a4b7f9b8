package shared

// cut is a batch to be: give up the first drop requests of the line and run
// the next size of them.
type cut struct {
	drop, size int
}

// whole says whether all that wait can run as one batch, or as many as a batch may hold,
// which is so most often; cutWindow then forms that one, whatever its target.
func whole(q *line, s *offer) (cut, bool) {
	if q.n == 0 || s.finish(q.n) > q.due(0) {
		return cut{}, false
	}
	return cut{size: min(q.n, len(s.table))}, true
}

// cutWindow forms a batch as Symphony's code does (its window drop): the
// longest end of the line that can run as one batch is found; target of it is
// what the batch should hold; requests before that end are taken in if the
// batch is done by the time they are due; and then the batch grows past the
// target as far as its first request allows. What stands before the batch is
// late for any batch worth running. The size is 0 where nothing can run.
func cutWindow(q *line, s *offer, target int) cut {
	if c, ok := whole(q, s); ok {
		return c
	}
	low, high := 0, q.n // the longest end starts in low..high
	for low < high {
		mid := (low + high) / 2
		if s.finish(q.n-mid) <= q.due(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	size := min(max(1, target), q.n-low, len(s.table))
	if size == 0 {
		return cut{drop: q.n}
	}
	first := min(low, q.first(s.finish(size)))
	return cut{drop: first, size: s.grow(size, q.n-first, q.due(first))}
}

// cutEarly forms a batch as Nexus does (its early drop): the first request
// that allows a whole batch of the target size behind it starts the batch, and
// all before it are given up. A line too short for a window keeps its head.
func cutEarly(q *line, s *offer, target int) cut {
	size := min(max(1, target), len(s.table))
	first := q.first(s.finish(min(size, max(1, q.n))))
	if first+size > q.n { // no whole window is left: what remains, as it is
		first = min(first, max(0, q.n-size))
		return cutHead(q, s, first)
	}
	return cut{drop: first, size: s.grow(size, q.n-first, q.due(first))}
}

// cutHead forms a batch by keeping the head of the line: requests from place
// first on that cannot run even alone are given up, and the batch is as large
// as the first of the others allows (the text of Symphony, section 4.3).
func cutHead(q *line, s *offer, first int) cut {
	if q.n == 0 {
		return cut{}
	}
	first = max(first, q.first(s.finish(1)))
	if first == q.n {
		return cut{drop: q.n}
	}
	return cut{drop: first, size: s.largest(q.n-first, q.due(first))}
}
