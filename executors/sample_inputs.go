package executors

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// feedsOf reports what a pipeline sends to the inputs of a module: the datatypes
// and shapes of the tensors that they are bound to, without the first
// dimension where the module splits it. What is gathered has as many rows as the fan-outs
// that it is gathered from make; other rows that vary are those of Pipeline.OpenRows.
// A typical input in the declaration goes before, of the module's input or of the pipeline's
// input that feeds it. signatures may be nil; inputs of unknown source are left out, unless the
// module declares what is typical.
func feedsOf(p pipelines.Pipeline, module string, signatures pipelines.SignatureFunc) map[string]pipelines.Port {
	feeds := make(map[string]pipelines.Port)
	rows := p.OpenRows()
	for _, m := range p.Modules {
		if m.Name != module {
			continue
		}
		own, _ := signature(m, signatures)
		graph := p.Resolve()
		scopes := graph.Scopes()
		for _, b := range m.Inputs {
			port, ok := source(p, b.From, signatures)
			if typical := m.Typical[b.Name]; len(typical) > 0 {
				datatype := cmp.Or(ownDatatype(own, b.Name), port.Datatype)
				feeds[b.Name] = pipelines.Port{Name: b.Name, Datatype: datatype, Shape: typical}
				continue
			}
			if !ok {
				continue
			}
			declared := port.Shape
			port.Shape = slices.Clone(declared)
			if port.Typical != nil && len(port.Typical) == len(declared) {
				port.Shape = slices.Clone(port.Typical)
			}
			if m.Gathers(b, b.From, scopes) {
				declared, port.Shape = slices.Insert(slices.Clone(declared), 0, -1), slices.Insert(port.Shape, 0, graph.GatheredRows(&m, b, scopes))
			}
			if m.Scatter && !m.IsConditional() && splits(pipelines.Port{Shape: declared}, own, b.Name) {
				port.Shape = port.Shape[1:]
			}
			if len(port.Shape) > 0 && port.Shape[0] < 0 {
				port.Shape[0] = rows
			}
			feeds[b.Name] = pipelines.Port{Name: b.Name, Datatype: port.Datatype, Shape: port.Shape}
		}
	}
	return feeds
}

func signature(m pipelines.Module, signatures pipelines.SignatureFunc) (pipelines.Signature, bool) {
	if signatures == nil {
		return pipelines.Signature{}, false
	}
	sig, err := signatures(m)
	return sig, err == nil
}

// ownDatatype is an input's datatype in the module's signature; empty when unknown.
func ownDatatype(own pipelines.Signature, input string) string {
	if i := slices.IndexFunc(own.Inputs, func(p pipelines.Port) bool { return p.Name == input }); i >= 0 {
		return own.Inputs[i].Datatype
	}
	return ""
}

// source is the tensor that a reference points at.
func source(p pipelines.Pipeline, r pipelines.Ref, signatures pipelines.SignatureFunc) (pipelines.Port, bool) {
	ports := p.Inputs
	if r.Module != "" {
		i := slices.IndexFunc(p.Modules, func(m pipelines.Module) bool { return m.Name == r.Module })
		if i < 0 {
			return pipelines.Port{}, false
		}
		sig, _ := signature(p.Modules[i], signatures)
		ports = sig.Outputs
	}
	i := slices.IndexFunc(ports, func(port pipelines.Port) bool { return port.Name == r.Port })
	if i < 0 || ports[i].Datatype == "" {
		return pipelines.Port{}, false
	}
	return ports[i], true
}

// splits reports whether a scattering module receives one row of the tensor at a
// time: the input has one dimension less, or is unknown and the first varies.
func splits(port pipelines.Port, own pipelines.Signature, input string) bool {
	if len(port.Shape) == 0 {
		return false
	}
	i := slices.IndexFunc(own.Inputs, func(p pipelines.Port) bool { return p.Name == input })
	if i < 0 || own.Inputs[i].Datatype == "" {
		return port.Shape[0] < 0
	}
	return len(own.Inputs[i].Shape) == len(port.Shape)-1
}

// FeedSampler makes its own inputs, one for every shape, where random numbers would not
// do (see executors.FeedSampler).
type FeedSampler interface {
	Sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor
}

// SampleInputs makes one request for a module with the inputs; own may be nil.
func SampleInputs(inputs []pipelines.Port, own FeedSampler, feeds map[string]pipelines.Port, rng *rand.Rand) []wire.Tensor {
	shapes := make([][]int64, len(inputs))
	tensors := make([]wire.Tensor, len(inputs))
	for i, port := range inputs {
		feed, fed := feeds[port.Name]
		if port.Datatype == "" {
			port = feed
			if !fed {
				port = pipelines.Port{Datatype: wire.FP32, Shape: []int64{1}}
			}
		}
		shapes[i] = closed(port.Shape, feed.Shape)
		if port.Loop != "" {
			tensors[i] = wire.Zeros(port.Datatype, shapes[i]) // as a stream begins
			continue
		}
		tensors[i] = random(port.Datatype, shapes[i], rng)
	}
	if own != nil {
		return own.Sample(shapes, rng)
	}
	return tensors
}

// closed fills the open dimensions of a shape.
func closed(shape, feed []int64) []int64 {
	full := slices.Clone(shape)
	for i := range full {
		if full[i] < 0 && len(feed) == len(full) {
			full[i] = feed[i]
		}
	}
	return pipelines.Closed(full, new(pipelines.Pipeline).OpenRows())
}

// random is a tensor of numbers between 0 and 1, whole numbers below 128,
// truth values, or short words.
func random(datatype string, shape []int64, rng *rand.Rand) wire.Tensor {
	t := wire.Tensor{Datatype: datatype, Shape: shape}
	size, n := wire.Size(datatype), t.Len()
	if datatype == wire.Bytes {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprintf("word%d", rng.IntN(1000))
		}
		return wire.FromStrings(words).Reshape(shape...)
	}
	t.Data = make([]byte, max(size*n, 0))
	for i := range max(n, 0) {
		element(datatype, t.Data[i*size:], rng)
	}
	return t
}

func element(datatype string, to []byte, rng *rand.Rand) {
	const half16, halfBrain = 0x3800, 0x3f00 // 0.5; the low bits vary it
	switch datatype {
	case wire.FP32:
		binary.LittleEndian.PutUint32(to, math.Float32bits(rng.Float32()))
	case wire.FP64:
		binary.LittleEndian.PutUint64(to, math.Float64bits(rng.Float64()))
	case wire.FP16:
		binary.LittleEndian.PutUint16(to, half16+uint16(rng.IntN(1024)))
	case wire.BF16:
		binary.LittleEndian.PutUint16(to, halfBrain+uint16(rng.IntN(128)))
	case wire.Bool:
		to[0] = byte(rng.IntN(2))
	default: // whole numbers: little-endian, so that the first byte is the lowest
		to[0] = byte(rng.IntN(128))
	}
}

const (
	plainSizes = 2                    // so many that took no longer at first show that no size does
	longer     = 2                    // times as long as the second run takes the first where it prepares
	slack      = 5 * time.Millisecond // and beyond that
	between    = 30 * time.Second     // for the sizes that are not declared, all together
)

// WarmItem is a request of zeros, or of empty texts. What a pipeline sends fills open dimensions; ok is
// false where the size of an input is not known.
func WarmItem(inputs []pipelines.Port, feeds map[string]pipelines.Port) (item []wire.Tensor, ok bool) {
	item = make([]wire.Tensor, len(inputs))
	for i, port := range inputs {
		shape := slices.Clone(port.Shape)
		if feed := feeds[port.Name].Shape; len(feed) == len(shape) {
			for k := range shape {
				if shape[k] < 0 {
					shape[k] = feed[k]
				}
			}
		}
		if port.Datatype == "" || slices.ContainsFunc(shape, func(d int64) bool { return d < 1 }) {
			return nil, false
		}
		item[i] = wire.Zeros(port.Datatype, shape)
	}
	return item, true
}

// WarmUp runs a batch of every one of the sizes, the largest first, which brings all the memory that
// the others need.
func WarmUp(ctx context.Context, sizes []int, run func(ctx context.Context, size int) error) error {
	sizes = slices.Sorted(slices.Values(sizes))
	for _, n := range slices.Backward(sizes) {
		if err := run(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// WarmBetween runs the sizes below the largest that are not among them: all where the first
// run of one takes longer than the second, and two where it does not. A size that fails is not
// reported here, but when it is sent.
func WarmBetween(ctx context.Context, sizes []int, run func(ctx context.Context, size int) error) {
	begin, prepares, plain := time.Now(), false, 0
	took := func(n int) time.Duration {
		from := time.Now()
		if run(ctx, n) != nil {
			return -1
		}
		return time.Since(from)
	}
	for n := slices.Max(append([]int{0}, sizes...)) - 1; n > 0 && plain < plainSizes && time.Since(begin) < between; n-- {
		if slices.Contains(sizes, n) {
			continue
		}
		first := took(n)
		if first < 0 {
			return
		}
		if prepares {
			continue
		}
		second := took(n)
		if prepares = second >= 0 && first > longer*second+slack; !prepares {
			plain++
		}
	}
}
