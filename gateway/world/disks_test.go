package world

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/pipelines"
)

// Gateways and dispatchers write nothing to disk to serve; hosts write the files of modules
// to theirs before they load them. In some worlds a module's version is a file, which every
// host takes from the shelf into a real cache, and whose disk is full at times: what cannot
// be written is not loaded, and what serves goes on.

// shelf has the files of all versions.
type shelf struct {
	mu    sync.Mutex
	files map[string]string // by digest
}

// file is that of a version.
func (s *shelf) file(name string, version int) pipelines.File {
	text := fmt.Sprintf("%020d", version) // the half of it would be a version, too
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[digest] = text
	return pipelines.File{Path: name, Digest: digest, Size: int64(len(text))}
}

// store is the shelf as a host sees it.
type store struct {
	world *world
	host  *hostProcess
}

func (s store) String() string { return "the shelf" }

func (s store) Has(context.Context, string) (bool, error) { return true, nil }

func (s store) Put(context.Context, pipelines.File, io.Reader) error { return syscall.EROFS }

// Open gives a file. Where the disk of the host is full it ends after one half with the
// error that writing the other half would give.
func (s store) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	s.world.shelf.mu.Lock()
	text := s.world.shelf.files[digest]
	s.world.shelf.mu.Unlock()
	if !s.host.full(s.world) {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	s.world.history.note("the disk of %s is full", s.host.name)
	return io.NopCloser(io.MultiReader(strings.NewReader(text[:len(text)/2]), noSpace{})), nil
}

type noSpace struct{}

func (noSpace) Read([]byte) (int, error) { return 0, syscall.ENOSPC }

func (h *hostProcess) full(w *world) bool {
	h.mu.Lock()
	until := h.fullUntil
	h.mu.Unlock()
	return w.troubled() && time.Now().Before(until)
}

// cache is the host's; nil where versions are no files.
func (w *world) cache(h *hostProcess) *content.Cache {
	if w.disk == "" {
		return nil
	}
	const files = 40 // more than are in use at once
	return &content.Cache{Dir: filepath.Join(w.disk, h.name), Stores: []content.Store{store{w, h}}, Limit: files * 20}
}

// fillDisks fills one disk after the other for a while.
func (w *world) fillDisks() {
	r := random(w.seed, "disks")
	for w.pause(between(r, 10*time.Millisecond, 800*time.Millisecond)) && w.troubled() {
		h, d := w.hosts[r.IntN(len(w.hosts))], between(r, 50*time.Millisecond, 2*time.Second)
		w.history.fault()
		w.history.note("the disk of %s is full for %v", h.name, d)
		h.mu.Lock()
		h.fullUntil = time.Now().Add(d)
		h.mu.Unlock()
	}
}

// version is that of a module, by its file where it has one.
func version(m pipelines.Module) (int, error) {
	if len(m.Content) == 0 {
		return strconv.Atoi(strings.TrimPrefix(m.Model, "v"))
	}
	text, err := os.ReadFile(m.Model)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}
