package exact

import "math"

// program is a linear program whose columns come one by one: the least cost with the sum
// of every row but the last at least 0, and that of the last, one a pipeline, 1. It is the
// revised simplex method with the inverse of the basis. Digits that it loses cost time and
// nothing else: its prices are only asked.
type program struct {
	whole   int // the first of the last rows
	basis   []column
	inverse [][]float64
	x       []float64 // of the basis
	prices  []float64 // by row
	cost    float64
}

const (
	reduced  = 1e-9 // by which a column must gain
	pivot    = 1e-9
	shiftRow = 1e-6 // right-hand sides, so that few are equal
)

// newProgram begins with pipelines that cost so much each, and shares of streams that cost
// so much: no price is higher.
func newProgram(shared, pipelines int, most float64, highest []float64) *program {
	p := &program{whole: shared, inverse: make([][]float64, shared+pipelines), prices: make([]float64, shared+pipelines)}
	for r := range p.inverse {
		p.inverse[r] = make([]float64, shared+pipelines)
		if r < shared {
			p.inverse[r][r] = 1
			p.basis, p.x = append(p.basis, column{cost: highest[r], rows: []int{r}, entries: []float64{1}}), append(p.x, shiftRow*(1+float64(r*7919%1000)/1000))
		} else {
			p.inverse[r][r] = 1
			p.basis, p.x = append(p.basis, column{cost: most, rows: []int{r}, entries: []float64{1}}), append(p.x, 1)
		}
	}
	p.price()
	return p
}

// price are the prices of the rows, and the cost.
func (p *program) price() {
	clear(p.prices)
	p.cost = 0
	for r, c := range p.basis {
		if c.cost == 0 {
			continue
		}
		p.cost += c.cost * p.x[r]
		for q, f := range p.inverse[r] {
			p.prices[q] += c.cost * f
		}
	}
}

// add takes those of the columns into the basis that gain, then what keeps prices from
// being negative or rising with the budget; false where there are none.
func (p *program) add(list []column) (any bool) {
	for _, c := range list {
		any = p.enter(c) || any
	}
	for r := range p.whole {
		if p.prices[r] < -reduced {
			any = p.enter(column{cost: 0, rows: []int{r}, entries: []float64{-1}}) || any
		}
		if r%(columnKnots+1) < columnKnots && p.prices[r+1] > p.prices[r]+reduced {
			any = p.enter(column{cost: 0, rows: []int{r, r + 1}, entries: []float64{-1, 1}}) || any
		}
	}
	return any
}

// enter takes a column into the basis where it gains.
func (p *program) enter(c column) bool {
	gain := -c.cost
	for n, q := range c.rows {
		gain += c.entries[n] * p.prices[q]
	}
	if !(gain > reduced) {
		return false
	}
	d := make([]float64, len(p.basis))
	out, ratio := -1, math.Inf(1)
	for r, row := range p.inverse {
		for n, q := range c.rows {
			d[r] += row[q] * c.entries[n]
		}
		if d[r] <= pivot {
			continue
		}
		if q := p.x[r] / d[r]; q < ratio || q == ratio && d[r] > d[out] {
			out, ratio = r, q
		}
	}
	if out < 0 {
		return false
	}
	lead := p.inverse[out]
	for q := range lead {
		lead[q] /= d[out]
	}
	for r, row := range p.inverse {
		f := d[r]
		if r == out || f == 0 {
			continue
		}
		for q, l := range lead {
			row[q] -= f * l
		}
		p.x[r] = math.Max(0, p.x[r]-f*ratio)
	}
	p.x[out], p.basis[out] = ratio, c
	// The prices change by a multiple of the row that was taken.
	for q, l := range lead {
		p.prices[q] -= gain * l
	}
	p.cost -= gain * ratio
	return true
}
