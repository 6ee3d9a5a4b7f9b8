package emulated

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// maxRows bounds the rows of one output: a mean beyond it is a mistake.
const maxRows = 1 << 16

// outputs makes the answers of one instance.
type outputs struct {
	ports []output
	means []float64 // distinct means of OutputRows
	given []int64   // rows given out so far, by mean
	items int64     // requests answered so far
	fixed []wire.Tensor
	echo  bool
}

// output is one port: its datatype and its row, repeated as often as needed.
type output struct {
	datatype string
	row      []int64 // shape of one row, or of the whole tensor when mean is -1
	bytes    int     // of one row
	mean     int     // index into means; -1 when the rows do not vary
}

func newOutputs(sig pipelines.Signature, rows map[string]float64, known, echo bool) *outputs {
	o := &outputs{echo: echo}
	for _, port := range sig.Outputs {
		o.ports = append(o.ports, o.port(port, rows, known))
	}
	for _, p := range o.ports {
		if p.mean >= 0 {
			return o
		}
	}
	if !echo {
		o.fixed = o.item(make([]int64, 0), nil)
	}
	return o
}

func (o *outputs) port(port pipelines.Port, rows map[string]float64, known bool) output {
	shape := append([]int64{}, port.Shape...)
	varies := len(shape) > 0 && shape[0] < 0
	out := output{datatype: port.Datatype, mean: -1}
	mean, scattered := rows[port.Name]
	if varies && (scattered || known) {
		if !scattered {
			mean = 1
		}
		out.mean = o.index(mean)
		shape = shape[1:]
	}
	if out.datatype == "" {
		out.datatype = "FP32"
	}
	size := int64(wire.Size(out.datatype))
	if size <= 0 {
		size = 4 // an empty BYTES element is its length alone
	}
	for i, d := range shape {
		shape[i] = max(d, 1)
		size *= shape[i]
	}
	out.row, out.bytes = shape, int(size)
	return out
}

func (o *outputs) index(mean float64) int {
	for i, m := range o.means {
		if m == mean {
			return i
		}
	}
	o.means = append(o.means, mean)
	o.given = append(o.given, 0)
	return len(o.means) - 1
}

// batch answers one batch. Tensors of fixed shape are shared between answers:
// tensors are read-only once they are sent.
func (o *outputs) batch(items [][]wire.Tensor) [][]wire.Tensor {
	answers := make([][]wire.Tensor, len(items))
	if o.fixed != nil {
		for i := range answers {
			answers[i] = o.fixed
		}
		return answers
	}
	counts := make([]int64, len(o.means))
	for i := range answers {
		o.next(counts)
		answers[i] = o.item(counts, items[i])
	}
	return answers
}

// next sets counts to the rows of the next request: what is missing to
// floor(items·mean).
func (o *outputs) next(counts []int64) {
	o.items++
	for i, mean := range o.means {
		total := int64(math.Floor(float64(o.items)*mean + 1e-9))
		counts[i] = min(max(total-o.given[i], 0), maxRows)
		o.given[i] += counts[i]
	}
}

func (o *outputs) item(counts []int64, inputs []wire.Tensor) []wire.Tensor {
	answer := make([]wire.Tensor, len(o.ports))
	for j, p := range o.ports {
		shape, size := p.row, p.bytes
		if p.mean >= 0 {
			shape = append([]int64{counts[p.mean]}, p.row...)
			size *= int(counts[p.mean])
		}
		answer[j] = wire.Tensor{Datatype: p.datatype, Shape: shape, Data: make([]byte, size)}
		if o.echo && p.datatype == "FP32" && size >= 4 {
			binary.LittleEndian.PutUint32(answer[j].Data, math.Float32bits(Checksum(inputs)))
		}
	}
	return answer
}

// Checksum is what Options.Echo puts into an answer: a whole number that
// float32 holds exactly, from the bytes of all inputs.
func Checksum(inputs []wire.Tensor) float32 {
	var sum uint32
	for _, t := range inputs {
		sum = crc32.Update(sum, crc32.IEEETable, t.Data)
	}
	return float32(sum >> 8)
}
