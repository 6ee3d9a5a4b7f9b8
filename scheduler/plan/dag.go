package plan

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// DAG is the pipeline as indices in topological order.
type DAG struct {
	Names    []string
	Up, Down [][]int
	Rows     [][]int // longest chains without a branch, see inRows
}

func newDAG(p *pipelines.Pipeline) (*DAG, error) {
	order, err := p.Order()
	if err != nil {
		return nil, err
	}
	d := &DAG{Names: order, Up: make([][]int, len(order)), Down: make([][]int, len(order))}
	for i, name := range order {
		for _, u := range p.Upstream(name) {
			j := slices.Index(order, u)
			d.Up[i] = append(d.Up[i], j)
			d.Down[j] = append(d.Down[j], i)
		}
	}
	d.Rows = d.inRows()
	return d, nil
}

// inRows are the longest chains of modules in which each but the last feeds only
// the next, and each but the first reads only from the one before.
func (d *DAG) inRows() [][]int {
	var rows [][]int
	for i := range d.Names {
		if len(d.Up[i]) == 1 && len(d.Down[d.Up[i][0]]) == 1 {
			continue // not the first of its row
		}
		row := []int{i}
		for next := i; len(d.Down[next]) == 1 && len(d.Up[d.Down[next][0]]) == 1; {
			next = d.Down[next][0]
			row = append(row, next)
		}
		rows = append(rows, row)
	}
	return rows
}

// Around gives for every module the longest path that passes through it,
// without the module itself. Times add up without overflow as long as none
// exceeds a quarter of the longest duration in any sum; ToDuration sees to it.
func (d *DAG) Around(weight []time.Duration) []time.Duration {
	head := make([]time.Duration, len(weight))
	tail := make([]time.Duration, len(weight))
	for i := range weight {
		for _, u := range d.Up[i] {
			head[i] = max(head[i], Saturate(head[u], weight[u]))
		}
	}
	for i := len(weight) - 1; i >= 0; i-- {
		for _, v := range d.Down[i] {
			tail[i] = max(tail[i], Saturate(tail[v], weight[v]))
		}
	}
	for i := range head {
		head[i] = Saturate(head[i], tail[i])
	}
	return head
}

// Longest is the length of the longest path.
func (d *DAG) Longest(weight []time.Duration) time.Duration {
	var total time.Duration
	for i, a := range d.Around(weight) {
		total = max(total, Saturate(a, weight[i]))
	}
	return total
}

// Stretch lengthens the weights so that every module lies on a path as long as
// the limit, as far as one factor a module can: a module's weight is multiplied
// by limit over the longest path through it. No path becomes longer than the
// limit, because each of its modules is stretched by at most limit over the
// length of that path.
func (d *DAG) Stretch(weight []time.Duration, limit time.Duration) []time.Duration {
	out := slices.Clone(weight)
	for i, a := range d.Around(weight) {
		through := Saturate(a, weight[i])
		if weight[i] > 0 && through > 0 && through < limit {
			out[i] = max(weight[i], Scale(weight[i], limit, through))
			if a == 0 {
				out[i] = limit // to the nanosecond
			}
		}
	}
	return out
}

// Scale is x·num/den rounded down, within rounding of a float64.
func Scale(x, num, den time.Duration) time.Duration {
	return time.Duration(float64(x) * (float64(num) / float64(den)) * (1 - 4e-16))
}

// Saturate adds two times without overflow.
func Saturate(a, b time.Duration) time.Duration {
	const most = time.Duration(1) << 61
	return min(most, a+b)
}

// LongestThrough is the length of the longest path that passes module i.
func (d *DAG) LongestThrough(weight []time.Duration, i int) time.Duration {
	return Saturate(d.Around(weight)[i], weight[i])
}
