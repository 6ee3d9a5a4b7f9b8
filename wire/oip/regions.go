package oip

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
)

// Bounds of what callers register. Each region keeps a file open.
const (
	maxRegions    = 1024 // of all callers
	mostOfOne     = 128  // of one caller
	maxRegionName = 1024 // bytes
)

// RegionStatus describes a registered region as the protocol does.
type RegionStatus struct {
	Name   string `json:"name"`
	Key    string `json:"key"`       // "/NAME" of a file in the folder for shared memory
	Offset int64  `json:"offset"`    // bytes, where the region begins in the file
	Size   int64  `json:"byte_size"` // bytes
}

// Regions is the shared memory that callers of this machine have registered, each for itself: one
// does not see those of others. The memory is read and written as a file and never mapped, so that
// a caller who cuts the file short gets an error and does not end this process. It is safe for
// concurrent use.
type Regions struct {
	folder, prefix string

	mu  sync.Mutex
	all map[regionKey]*registered
}

type regionKey struct{ owner, name string }

type registered struct {
	RegionStatus
	file *os.File
	info os.FileInfo // which file it is
}

// NewRegions lets callers register the files of /dev/shm whose names begin with the prefix. The prefix
// must have a letter at least and no slash but a first one.
func NewRegions(prefix string) (*Regions, error) { return newRegions(osutil.SharedMemory, prefix) }

func newRegions(folder, prefix string) (*Regions, error) {
	prefix = strings.TrimPrefix(prefix, "/")
	if prefix == "" || strings.ContainsAny(prefix, "/\x00") || strings.HasPrefix(prefix, ".") {
		return nil, fmt.Errorf("%q does not begin names of shared memory; give what those of the clients begin with, such as client-", prefix)
	}
	return &Regions{folder: folder, prefix: prefix, all: map[regionKey]*registered{}}, nil
}

// Register registers a region for its owner, the name of a token. Every error is of code "invalid",
// those of the other methods, too.
func (r *Regions) Register(owner string, s RegionStatus) error {
	name := strings.TrimPrefix(s.Key, "/")
	switch {
	case s.Name == "" || len(s.Name) > maxRegionName:
		return invalid("the name of a region has 1 to %d bytes", maxRegionName)
	case strings.ContainsAny(name, "/\x00") || !strings.HasPrefix(name, r.prefix) || strings.HasPrefix(name, osutil.NamePrefix):
		return invalid("region %q: its key is %q, and may be /%s... (see --shared-memory), but not /%s..., which are of engines", s.Name, s.Key, r.prefix, osutil.NamePrefix)
	case s.Offset < 0 || s.Size <= 0:
		return invalid("region %q: offset is %d and byte_size %d; the first is 0 or more, the other more than 0", s.Name, s.Offset, s.Size)
	}
	// A link could lead out of the folder.
	file, err := os.OpenFile(filepath.Join(r.folder, name), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return invalid("region %q: %v; a client makes it before it registers it, for this process to read and write", s.Name, err)
	}
	if err = r.add(owner, &registered{RegionStatus: s, file: file}); err != nil {
		_ = file.Close()
	}
	return err
}

func (r *Regions) add(owner string, g *registered) (err error) {
	if g.info, err = g.file.Stat(); err != nil {
		return invalid("region %q: %v", g.Name, err)
	}
	switch size := g.info.Size(); {
	case !g.info.Mode().IsRegular():
		return invalid("region %q: %s is no shared memory", g.Name, g.Key)
	case g.Offset > size || g.Size > size-g.Offset:
		return invalid("region %q: %s has %d bytes, fewer than offset %d and byte_size %d", g.Name, g.Key, size, g.Offset, g.Size)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := regionKey{owner, g.Name}
	switch {
	case r.all[key] != nil:
		return invalid("region %q is registered already; unregister it first", g.Name)
	case r.room(owner) == 0:
		return invalid("region %q: %d regions are registered, which is the most, of one caller or %d of all; unregister those that are not used any more", g.Name, mostOfOne, maxRegions)
	}
	r.all[key] = g
	return nil
}

// room is how many regions more an owner may register. Those of files that are removed, as by clients
// that are gone, go first.
func (r *Regions) room(owner string) int {
	left := func() int {
		own := 0
		for key := range r.all {
			if key.owner == owner {
				own++
			}
		}
		return max(0, min(mostOfOne-own, maxRegions-len(r.all)))
	}
	if n := left(); n > 0 {
		return n
	}
	for key, g := range r.all {
		if info, err := g.file.Stat(); err != nil || removed(info) {
			delete(r.all, key)
			_ = g.file.Close()
		}
	}
	return left()
}

// removed reports whether no name leads to an open file any more.
func removed(of os.FileInfo) bool {
	s, ok := of.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}

// Unregister forgets a region of the owner, or all of them where the name is empty. Requests under way can
// neither read nor write it then.
func (r *Regions) Unregister(owner, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" && r.all[regionKey{owner, name}] == nil {
		return noRegion(name)
	}
	for key, g := range r.all {
		if key.owner == owner && (name == "" || key.name == name) {
			delete(r.all, key)
			_ = g.file.Close()
		}
	}
	return nil
}

// Status lists the regions of the owner by name, or the one of that name.
func (r *Regions) Status(owner, name string) ([]RegionStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []RegionStatus{}
	for key, g := range r.all {
		if key.owner == owner && (name == "" || key.name == name) {
			out = append(out, g.RegionStatus)
		}
	}
	if name != "" && len(out) == 0 {
		return nil, noRegion(name)
	}
	slices.SortFunc(out, func(a, b RegionStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func noRegion(name string) error {
	return invalid("no region %q is registered here by this caller", name)
}

// Of is what requests of the owner may name.
func (r *Regions) Of(owner string) *CallerRegions { return &CallerRegions{r, owner} }

// CallerRegions are the regions of one caller.
type CallerRegions struct {
	of    *Regions
	owner string
}

// window is a part of a region. It is of that region even after another has got its name.
type window struct {
	in           *registered
	offset, size int64 // in the region
}

// input reads tensors that lie in regions, in all no more than a body may have, of which so many bytes
// are taken.
func (o *Bounds) input(taken int64) regions {
	return func(_ *wire.NamedTensor, said *tensorParameters) ([]byte, error) {
		w, err := o.Regions.window(&said.placeParameters)
		if err != nil {
			return nil, err
		}
		if taken += w.size; o.Most > 0 && taken > o.Most {
			return nil, tooLarge("body and shared memory have more than the %d bytes that are accepted", o.Most)
		}
		if o.Grow != nil {
			if err := o.Grow(w.size); err != nil {
				return nil, err
			}
		}
		return w.read()
	}
}

// place notes where an output is to lie.
func (c *Call) place(output string, said *placeParameters, in *CallerRegions) error {
	w, err := in.window(said)
	if err != nil {
		return err
	}
	for other, o := range c.places {
		if w.overlaps(o) {
			return invalid("its shared memory overlaps with that of output %q", other)
		}
	}
	if c.places == nil {
		c.places = map[string]*window{}
	}
	c.places[output] = w
	return nil
}

// put writes the outputs of an answer that are to lie in shared memory.
func (c *Call) put(answer *wire.InferResponse) error {
	if len(c.places) == 0 {
		return nil
	}
	for i := range answer.Outputs {
		t := &answer.Outputs[i]
		if w := c.places[t.Name]; w != nil {
			if err := w.write(t.Data); err != nil {
				return invalid("output %q: %s", t.Name, reason(err))
			}
		}
	}
	return nil
}

// place is what an answer says of an output that lies there.
func (w *window) place(t *wire.NamedTensor) *Place {
	if w == nil {
		return nil
	}
	return &Place{Region: w.in.Name, Offset: int(w.offset), Data: t.Data}
}

// window finds what a tensor's parameters name. c may be nil.
func (c *CallerRegions) window(said *placeParameters) (*window, error) {
	name, offset, size := said.Region, said.Offset, said.RegionSize
	if c == nil {
		return nil, invalid("it is said to lie in the shared memory %q (shared_memory_region), which this server takes from none, or not from callers like this one; send its data", name)
	}
	c.of.mu.Lock()
	g := c.of.all[regionKey{c.owner, name}]
	c.of.mu.Unlock()
	switch {
	case g == nil:
		return nil, noRegion(name)
	case size == nil:
		return nil, invalid("it has shared_memory_region without shared_memory_byte_size")
	}
	w := &window{in: g, size: *size}
	if offset != nil {
		w.offset = *offset
	}
	if w.offset < 0 || w.size < 0 || w.offset > g.Size || w.size > g.Size-w.offset {
		return nil, invalid("shared_memory_offset %d and shared_memory_byte_size %d are not within the %d bytes of region %q", w.offset, w.size, g.Size, name)
	}
	return w, nil
}

// at is where it begins in the file.
func (w *window) at() int64 { return w.in.Offset + w.offset }

// overlaps reports whether two windows have bytes in common, be it through different regions.
func (w *window) overlaps(o *window) bool {
	return os.SameFile(w.in.info, o.in.info) && w.at() < o.at()+o.size && o.at() < w.at()+w.size
}

// read copies what lies there.
func (w *window) read() ([]byte, error) {
	data := make([]byte, w.size)
	if _, err := w.in.file.ReadAt(data, w.at()); err != nil {
		return nil, w.failed("read", err)
	}
	return data, nil
}

// write puts data there, no more than there is room for.
func (w *window) write(data []byte) error {
	if int64(len(data)) > w.size {
		return invalid("it has %d bytes, more than its shared_memory_byte_size of %d", len(data), w.size)
	}
	info, err := w.in.file.Stat()
	if err == nil && info.Size() < w.at()+int64(len(data)) {
		err = io.EOF // writing would make the file longer again
	}
	if err == nil {
		_, err = w.in.file.WriteAt(data, w.at())
	}
	if err != nil {
		return w.failed("written", err)
	}
	return nil
}

func (w *window) failed(what string, err error) error {
	switch {
	case errors.Is(err, os.ErrClosed):
		return invalid("region %q was unregistered before it was %s", w.in.Name, what)
	case errors.Is(err, io.EOF):
		return invalid("region %q cannot be %s: %s has been made shorter than what was registered", w.in.Name, what, w.in.Key)
	}
	return invalid("region %q cannot be %s: %v", w.in.Name, what, err)
}
