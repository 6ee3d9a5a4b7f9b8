package exact

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// boundColumns: a bound that considers which modules share a device, and how long they wait
// there.
//
// Let v_m(L) be a price, of any kind, for serving the whole stream of module m within a
// budget L on devices that it shares. A device of kind k is full when its modules use
// all of it; what they have of it is worth the sum of v_m(L_m) times the parts of their
// streams. Let h_k be the most that one device may be worth, whichever modules are on it.
// Where h_k <= l_k for the prices l_k of all kinds, the devices of a plan cost no less than
// what they are worth, and so every plan at least
//
//	sum over pipelines of  min over budgets of  sum over m of  own_m + left_m · v_m(L_m)
//
// with what devices of a module's own cost and what they leave of its stream. Prices that
// make a device worth more are scaled down. That is the dual of a linear program whose
// columns are devices with what is on them, and pipelines with their budgets: columns are
// made where prices show that they are missing (Gilmore and Gomory 1961; Dantzig and
// Wolfe 1960), and prices between those of the program and the best so far are tried, which
// oscillate less (Wentges 1997).
//
// On a device with a longest batch D, of module j, all other modules wait for D, and j for
// the longest batch of another.

const (
	columnKnots   = 16   // of the price of a module by its budget, which is linear between them
	columnPoints  = 8    // budgets that are looked at for each
	columnLevels  = 12   // ranges of the longest batch of the others on a device
	columnRounds  = 400  // of prices
	columnStay    = 0.85 // part of the best prices so far in those that are tried
	columnHighest = 1.7  // price, of the first one
	columnModules = 24   // with more of them it takes too long
	columnWork    = 8e6  // modules on devices that are looked at: some seconds of one core
	columnCounts  = 64   // own devices of a kind that are counted one by one
	columnCombos  = 4096 // of numbers of own devices of one module

	leftToRaise = 0.01 // of the best plan's cost, that other bounds leave
	mostSplits  = 60   // that are taken from pipelines' columns
)

// columns is the search for such prices.
type columns struct {
	s      *devices
	stages []*stage
	curves []*curve
	loads  []load
	hull   []corner // room for one
	work   int      // modules on devices that were looked at
	lp     *program
}

// column is a device, with the parts of streams that it serves, or a pipeline with
// what its modules leave to shared devices, as a column of the linear program.
type column struct {
	cost    float64
	rows    []int
	entries []float64
	budgets []time.Duration // of a pipeline
}

// boundColumns is the bound in weights, for any plan, or some cost that is at least enough; 0
// where there are too many modules. It gives up where it cannot rise above known. The
// splits are those of the objectives, by pipeline and module, that the program uses.
func boundColumns(problems []*plan.Prepared, kinds []boundDevice, known, enough float64) (least float64, splits [][][]time.Duration) {
	s := &devices{problems: problems, kinds: kinds}
	c := s.newColumns(enough)
	if c == nil {
		return 0, nil
	}
	// Splits are taken from a program that still has many, the bound later.
	least, prices := c.rise(c.firstPrices(), known, enough, nearness{5e-4, 1e-3, 40})
	splits = c.splits()
	if least < enough {
		least, _ = c.rise(prices, known, enough, nearness{2e-4, 3e-4, 60})
	}
	return least * (1 - plan.OptimalityGap/10), splits
}

// nearness is when prices are good enough, relative to the bound.
type nearness struct {
	gain float64 // that counts as one
	near float64 // of the program's cost, that is left
	lazy int     // rounds that may gain nothing
}

// rise tries prices, beginning with from, until the bound hardly rises any more: the bound
// and its prices.
func (c *columns) rise(from []float64, known, enough float64, until nearness) (best float64, center []float64) {
	center = from
	for t, last := 0, 0; t < columnRounds && t-last <= until.lazy && best < enough; t++ {
		if c.work > columnWork || c.s.problems[0].Options.Stopped() {
			break
		}
		asked := slices.Clone(center)
		if t > 0 {
			for r, y := range c.lp.prices {
				asked[r] = columnStay*center[r] + (1-columnStay)*math.Max(0, y)
			}
		}
		z, worth, found := c.ask(asked)
		if t == 0 || z > best {
			if z > best*(1+until.gain) {
				last = t
			}
			for r := range center {
				center[r] = asked[r] / worth
			}
			best = math.Max(best, z)
		}
		if !c.lp.add(found) {
			if _, _, found = c.ask(c.lp.prices); !c.lp.add(found) {
				break
			}
		}
		if c.lp.cost < math.Max(known*(1+until.gain), best*(1+until.near)) {
			break
		}
	}
	return best, center
}

// splits are drawn from those of the pipelines in the program, each as often as it is
// used there; the first has of every pipeline the one that is used most.
func (c *columns) splits() (list [][][]time.Duration) {
	used := make([][]int, len(c.s.problems)) // numbers in the basis
	for r, x := range c.lp.basis {
		if x.budgets != nil && c.lp.x[r] > 10*shiftRow {
			used[x.rows[0]-c.lp.whole] = append(used[x.rows[0]-c.lp.whole], r)
		}
	}
	for _, of := range used {
		if len(of) == 0 {
			return nil
		}
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(c.lp.x[b], c.lp.x[a]) })
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same problem has the same plan
	for n := range mostSplits {
		one := make([][]time.Duration, len(used))
		for i, of := range used {
			k := 0
			for x := random.Float64(); n > 0 && k+1 < len(of); k++ {
				if x -= c.lp.x[of[k]]; x < 0 {
					break
				}
			}
			one[i] = c.lp.basis[of[k]].budgets
		}
		list = append(list, one)
	}
	return list
}

// ask evaluates all columns at these prices: the bound, the most that a device is worth
// relative to its price, and the best columns.
func (c *columns) ask(prices []float64) (least, worth float64, found []column) {
	v := c.spread(prices)
	worth, found = c.fill(v)
	if !(worth > 0) {
		return 0, 1, nil
	}
	for _, list := range v {
		for e := range list {
			list[e] /= worth
		}
	}
	for i := range c.s.problems {
		col, cost := c.pipeline(i, v)
		least += cost
		found = append(found, col)
	}
	return least, worth, found
}

// spread is the price of every module at every budget.
func (c *columns) spread(prices []float64) [][]float64 {
	v := make([][]float64, len(c.stages))
	for i, m := range c.stages {
		v[i] = make([]float64, len(m.budgets))
		for e := range v[i] {
			row, part := m.knot(e)
			v[i][e] = math.Max(0, (1-part)*prices[row])
			if part > 0 {
				v[i][e] += math.Max(0, part*prices[row+1])
			}
		}
	}
	return v
}

// firstPrices, of every row, are what modules use at the least, on whatever device: none is worth more
// than it costs.
func (c *columns) firstPrices() []float64 {
	prices := make([]float64, len(c.stages)*(columnKnots+1)+len(c.s.problems))
	for _, m := range c.stages {
		for k := 0; k <= columnKnots; k++ {
			least := math.Inf(1)
			for n := range m.Configs {
				g := &m.Configs[n]
				if period := m.Period(g, m.until(k*columnPoints)-g.Duration.Seconds()); period > 0 {
					least = math.Min(least, g.Interval()/period*c.s.kinds[c.s.kindOf(g)].Weight)
				}
			}
			if !math.IsInf(least, 1) {
				prices[m.row+k] = least
			}
		}
	}
	return prices
}

// program is a linear program whose columns come one by one: the least cost with the sum
// of every row but the last at least 0, and that of the last, one a pipeline, 1. It is the
// revised simplex method with the inverse of the basis. Lost digits cost time and nothing
// else: its prices are only tried, and any prices give a bound.
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
