package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// sharer is a Server that can take tensors in memory that it shares with its clients.
type sharer interface {
	Extensions(ctx context.Context) ([]string, error)
	Register(ctx context.Context, r oip.Region) error
	Unregister(ctx context.Context, name string) error
	InferPlaced(ctx context.Context, q *wire.InferRequest, version string, p oip.Places) (*wire.InferResponse, error)
}

// regions are the memory that an instance and its server both see: one region for each batch that is
// under way, which are two where the server takes one ahead. A batch has a region for itself, from before
// its tensors are written there until its results have been copied out, so that the next is written while one is
// computed. A region that is too small is replaced by a larger one.
type regions struct {
	sharer
	files bool   // the server takes a region's file; else it opens regions by name
	name  string // that those of regions begin with, which no other client has

	mu     sync.Mutex
	idle   []*region
	made   int
	closed bool
	failed error // why there are none
}

// region is memory that is registered with the server.
type region struct {
	name string
	all  []byte
	used int // bytes of the batch that it is for
}

// registerTime is for a server to register a region, or to forget one.
const registerTime = 10 * time.Second

// newRegions is nil where the server does not support shared memory.
func newRegions(s sharer, extensions []string) *regions {
	r := &regions{sharer: s, files: slices.Contains(extensions, oip.ExtensionMemoryFile), name: osutil.NamePrefix + rand.Text()}
	if !r.files && !slices.Contains(extensions, oip.ExtensionSharedMemory) {
		return nil
	}
	return r
}

// take gives a region of so many bytes; nil where there is none.
func (r *regions) take(ctx context.Context, size int) *region {
	r.mu.Lock()
	if r.closed || r.failed != nil {
		r.mu.Unlock()
		return nil
	}
	var g *region
	if n := len(r.idle); n > 0 {
		g, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	r.made++
	name := r.name + "-" + strconv.Itoa(r.made)
	r.mu.Unlock()
	if g != nil && len(g.all) >= size {
		g.used = 0
		return g
	}
	if g != nil {
		r.drop(g)
	}
	g, err := r.register(ctx, name, size)
	if err != nil && ctx.Err() == nil {
		r.mu.Lock()
		r.failed = err
		r.mu.Unlock()
	}
	return g
}

// leastRegion is that of a region, whose sizes are powers of two: of memory that has no name only what is written
// to is taken, and batches whose shapes vary seldom need a larger one.
const leastRegion = 64 << 10

// register makes a region and registers it with the server.
func (r *regions) register(ctx context.Context, name string, size int) (_ *region, err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	g := &region{name: name}
	said := oip.Region{Name: name, Size: leastRegion}
	for said.Size < size {
		said.Size *= 2
	}
	var file *os.File
	remove := func() {}
	if r.files {
		file, err = osutil.MemoryFile(said.Size)
		said.File = file
	} else {
		file, remove, err = osutil.NamedMemory(name, said.Size)
		said.Key = "/" + name
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer remove() // the server has opened it by then
	if g.all, err = unix.Mmap(int(file.Fd()), 0, said.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if err = r.Register(ctx, said); err == nil {
		return g, nil
	}
	g.free()
	return nil, fmt.Errorf("registering shared memory of %d bytes: %w", said.Size, err)
}

// give takes a region back that the server is done with.
func (r *regions) give(g *region) {
	r.mu.Lock()
	keep := !r.closed
	if keep {
		r.idle = append(r.idle, g)
	}
	r.mu.Unlock()
	if !keep {
		r.drop(g)
	}
}

// drop gives a region up, to which the server may still write.
func (r *regions) drop(g *region) {
	r.mu.Lock()
	ends := r.files && r.closed // a command, of which nothing stays
	r.mu.Unlock()
	if !ends {
		ctx, cancel := context.WithTimeout(context.Background(), healthTime)
		defer cancel()
		_ = r.Unregister(ctx, g.name)
	}
	g.free()
}

// close drops all regions, those in use once they are given back.
func (r *regions) close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	for _, g := range idle {
		r.drop(g)
	}
}

func (g *region) free() { _ = unix.Munmap(g.all) }

// aligned is a size rounded up to what tensors begin at: a cache line, and more than any element needs.
func aligned(n int) int { return (n + 63) &^ 63 }

// allocate gives n bytes to a tensor; nowhere where there are none.
func (g *region) allocate(n int) oip.Place {
	if n < 1 || n > len(g.all)-g.used {
		return oip.Place{}
	}
	at := g.used
	g.used += aligned(n)
	return oip.Place{Region: g.name, Offset: at, Data: g.all[at : at+n : at+n]}
}

// known is how many bytes an output of so many requests has; 0 where that is not known before.
func known(p *pipelines.Port, requests int) int {
	n := max(wire.Size(p.Datatype), 0) * requests
	for _, d := range p.Shape {
		n *= int(max(d, 0))
	}
	return n
}

// stacked is how many bytes an input of requests has as one tensor.
func stacked(items [][]wire.Tensor, like []int, input int) (n int) {
	for _, i := range like {
		n += len(items[i][input].Data)
	}
	return n
}

// need is how many bytes a batch has with its outputs.
func (in *Instance) need(items [][]wire.Tensor, like []int) (n int) {
	for j := range in.sent.Inputs {
		n += aligned(stacked(items, like, j))
	}
	for j := range in.signature.Outputs {
		n += aligned(known(&in.signature.Outputs[j], len(like)))
	}
	return n
}

// place writes the inputs of requests into the region, for each input one tensor of all of them, and
// returns the places of the outputs.
func (in *Instance) place(g *region, items [][]wire.Tensor, like []int) (*wire.InferRequest, oip.Places) {
	q := in.request()
	p := oip.Places{Inputs: make([]oip.Place, len(q.Inputs))}
	for j := range in.sent.Inputs {
		at, first := g.allocate(stacked(items, like, j)), &items[like[0]][j]
		to := at.Data
		for _, i := range like {
			to = to[copy(to, items[i][j].Data):]
		}
		stack := wire.Tensor{Datatype: first.Datatype, Shape: append([]int64{int64(len(like))}, first.Shape...)}
		q.Inputs = append(q.Inputs, wire.NamedTensor{Name: in.sent.Inputs[j].Name, Tensor: stack})
		p.Inputs = append(p.Inputs, at)
	}
	for j := range in.signature.Outputs {
		p.Outputs = append(p.Outputs, g.allocate(known(&in.signature.Outputs[j], len(like))))
	}
	return q, p
}

// errNotPlaced means that the batch is to travel.
var errNotPlaced = errors.New("no shared memory")

// askPlaced sends requests whose tensors lie in shared memory, and gives outputs that do not. A
// refusal may mean that the server was restarted and has lost the regions.
func (in *Instance) askPlaced(ctx context.Context, items [][]wire.Tensor, like []int) ([]wire.Tensor, error) {
	r := in.regions
	if r == nil {
		return nil, errNotPlaced
	}
	g := r.take(ctx, in.need(items, like))
	if g == nil {
		return nil, errNotPlaced
	}
	q, p := in.place(g, items, like)
	outputs, err := in.ask(ctx, func(ctx context.Context) (*wire.InferResponse, error) {
		return r.InferPlaced(ctx, q, in.target.Version, p)
	})
	switch {
	case errors.Is(err, wire.ErrInvalid) || errors.Is(err, wire.ErrNotFound):
		r.drop(g)
		return nil, errNotPlaced
	case errors.Is(err, wire.ErrUnavailable) || errors.Is(err, wire.ErrDeadline) || errors.Is(err, wire.ErrCanceled): // it is unknown whether it still computes
		r.drop(g)
		return nil, err
	}
	for j := range outputs {
		if j < len(p.Outputs) && p.Outputs[j].Region != "" {
			outputs[j].Data = slices.Clone(outputs[j].Data)
		}
	}
	r.give(g)
	return outputs, err
}
