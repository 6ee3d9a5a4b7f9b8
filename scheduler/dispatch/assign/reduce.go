package assign

// Reduce lists the columns that an optimal assignment of a wide matrix may be
// found in: for every row its n cheapest of the n rows, ties by the order of
// columns. The list is in rising order and holds until the next call. A matrix
// that is not wide keeps all columns.
func (r *Reducer) Reduce(cost []int64, rows, cols int) []int32 {
	r.keep = r.keep[:0]
	if rows >= cols {
		for j := range cols {
			r.keep = append(r.keep, int32(j))
		}
		return r.keep
	}
	r.wanted = sized(r.wanted, cols)
	clear(r.wanted)
	r.row = sized(r.row, cols)
	for i := range rows {
		row := cost[i*cols : (i+1)*cols]
		copy(r.row, row)
		bound, ties := nth(r.row, rows)
		for j, c := range row {
			switch {
			case c < bound:
				r.wanted[j] = true
			case c == bound && ties > 0:
				r.wanted[j] = true
				ties--
			}
		}
	}
	for j, wanted := range r.wanted {
		if wanted {
			r.keep = append(r.keep, int32(j))
		}
	}
	return r.keep
}

// Reducer holds the memory of Reduce; its zero value is ready.
type Reducer struct {
	row    []int64
	wanted []bool
	keep   []int32
}

// nth is the n-th smallest number (n >= 1), and how many of the n smallest are
// equal to it. It reorders s (Hoare's selection, with the middle one of three
// as the pivot).
func nth(s []int64, n int) (value int64, ties int) {
	low, high := 0, len(s)-1
	for low < high {
		pivot := middle(s[low], s[(low+high)/2], s[high])
		i, j := low, high
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case n-1 <= j:
			high = j
		case n-1 >= i:
			low = i
		default:
			low, high = n-1, n-1
		}
	}
	value = s[n-1]
	for _, c := range s[:n] {
		if c == value {
			ties++
		}
	}
	return value, ties
}

func middle(a, b, c int64) int64 { return max(min(a, b), min(max(a, b), c)) }
