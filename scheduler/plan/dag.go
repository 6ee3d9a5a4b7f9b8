package plan

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// dag is the pipeline as indices in topological order.
type dag struct {
	names    []string
	up, down [][]int
	rows     [][]int // see inRows
}

func newDAG(p *pipelines.Pipeline) (*dag, error) {
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	d := &dag{names: order, up: make([][]int, len(order)), down: make([][]int, len(order))}
	for i, name := range order {
		for _, u := range p.Upstream(name) {
			j := slices.Index(order, u)
			d.up[i] = append(d.up[i], j)
			d.down[j] = append(d.down[j], i)
		}
	}
	d.rows = d.inRows()
	return d, nil
}

// inRows are the longest chains of modules in which each but the last feeds only
// the next, and each but the first reads only from the one before.
func (d *dag) inRows() [][]int {
	var rows [][]int
	for i := range d.names {
		if len(d.up[i]) == 1 && len(d.down[d.up[i][0]]) == 1 {
			continue // not the first of its row
		}
		row := []int{i}
		for next := i; len(d.down[next]) == 1 && len(d.up[d.down[next][0]]) == 1; {
			next = d.down[next][0]
			row = append(row, next)
		}
		rows = append(rows, row)
	}
	return rows
}

// around gives for every module the longest path that passes through it,
// without the module itself. Times add up without overflow as long as none
// exceeds a quarter of the longest duration in any sum; toDuration sees to it.
func (d *dag) around(weight []time.Duration) []time.Duration {
	head := make([]time.Duration, len(weight))
	tail := make([]time.Duration, len(weight))
	for i := range weight {
		for _, u := range d.up[i] {
			head[i] = max(head[i], saturate(head[u], weight[u]))
		}
	}
	for i := len(weight) - 1; i >= 0; i-- {
		for _, v := range d.down[i] {
			tail[i] = max(tail[i], saturate(tail[v], weight[v]))
		}
	}
	for i := range head {
		head[i] = saturate(head[i], tail[i])
	}
	return head
}

// longest is the length of the longest path.
func (d *dag) longest(weight []time.Duration) time.Duration {
	var total time.Duration
	for i, a := range d.around(weight) {
		total = max(total, saturate(a, weight[i]))
	}
	return total
}

// stretch lengthens the weights so that every module lies on a path as long as
// the limit, as far as one factor a module can: a module's weight is multiplied
// by limit over the longest path through it. No path becomes longer than the
// limit, because each of its modules is stretched by at most limit over the
// length of that path.
func (d *dag) stretch(weight []time.Duration, limit time.Duration) []time.Duration {
	out := slices.Clone(weight)
	for i, a := range d.around(weight) {
		through := saturate(a, weight[i])
		if weight[i] > 0 && through > 0 && through < limit {
			out[i] = max(weight[i], scale(weight[i], limit, through))
			if a == 0 {
				out[i] = limit // to the nanosecond
			}
		}
	}
	return out
}

// scale is x·num/den rounded down, within rounding of a float64.
func scale(x, num, den time.Duration) time.Duration {
	return time.Duration(float64(x) * (float64(num) / float64(den)) * (1 - 4e-16))
}

func saturate(a, b time.Duration) time.Duration {
	const most = time.Duration(1) << 61
	return min(most, a+b)
}

// longestThrough is the length of the longest path that passes module i.
func (d *dag) longestThrough(weight []time.Duration, i int) time.Duration {
	return saturate(d.around(weight)[i], weight[i])
}
