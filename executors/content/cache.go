package content

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// DefaultLimit is how much a cache keeps.
const DefaultLimit = 20 << 30

// Cache is a host's folder of files by their digests, and of trees of them: for
// each module a folder in which its files lie beside each other as they did where
// they were declared. Trees link to the files and take no room of their own.
// Several processes may use one folder.
type Cache struct {
	Dir    string  // created when first needed
	Stores []Store // tried in order; after them the path of the declaration on this host
	Limit  int64   // bytes; 0 means DefaultLimit

	fetching chan struct{} // of one, made by begin
	mu       sync.Mutex
	held     map[string]int       // digests in use, by modules that are placed or about to be
	trees    map[string]int       // trees in use, by their names
	checked  map[string]time.Time // digests that have been read again since the start, and how old they were
}

// hold takes files, so that they are not evicted until release.
func (c *Cache) hold(tree string, files []pipelines.File) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held, c.trees, c.checked, c.fetching = map[string]int{}, map[string]int{}, map[string]time.Time{}, make(chan struct{}, 1)
	}
	for _, f := range files {
		c.held[f.Digest]++
	}
	c.trees[tree]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range files {
			if c.held[f.Digest]--; c.held[f.Digest] == 0 {
				delete(c.held, f.Digest)
			}
		}
		if c.trees[tree]--; c.trees[tree] == 0 {
			delete(c.trees, tree)
		}
	})
}

func (c *Cache) folder() Folder { return Folder(c.Dir) }

// ready makes sure that the cache has the file, taking it from where it is.
func (c *Cache) ready(ctx context.Context, f pipelines.File) error {
	if c.has(f) {
		return nil
	}
	select {
	case c.fetching <- struct{}{}: // one at a time: they share the network and the disk
		defer func() { <-c.fetching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.has(f) {
		return nil
	}
	if err := c.makeRoom(f.Size); err != nil {
		return err
	}
	missing := &missingError{File: f}
	for _, s := range c.Stores {
		err := c.take(ctx, s, f)
		if err == nil {
			return nil
		}
		if fatal(ctx, err) {
			return err
		}
		missing.Tried = append(missing.Tried, err)
		missing.Away = missing.Away || !errors.Is(err, errLacks) && !errors.As(err, new(*mismatchError))
	}
	if filepath.IsAbs(f.Path) {
		err := c.copy(ctx, f)
		if err == nil {
			return nil
		}
		if fatal(ctx, err) {
			return err
		}
		missing.Tried = append(missing.Tried, err)
	}
	return missing
}

// fatal errors are not those of one place among several.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*fullError))
}

func (c *Cache) take(ctx context.Context, s Store, f pipelines.File) error {
	from, err := s.Open(ctx, f.Digest)
	if err != nil {
		return err
	}
	defer from.Close()
	f.Path = "what the store " + s.String() + " gave"
	return c.put(ctx, f, from)
}

func (c *Cache) copy(ctx context.Context, f pipelines.File) error {
	from, _, err := osutil.OpenFile(f.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	return c.put(ctx, f, from)
}

func (c *Cache) put(ctx context.Context, f pipelines.File, from interface{ Read([]byte) (int, error) }) error {
	err := c.folder().Put(ctx, f, from)
	if err == nil {
		c.note(f.Digest)
	}
	return err
}

// has reports whether the file is there and sound. Each is checked once by every process, since
// disks fail and other programs may have written to it.
func (c *Cache) has(f pipelines.File) bool {
	path := c.folder().blob(f.Digest)
	info, err := os.Stat(path)
	if err != nil || info.Size() != f.Size {
		return false
	}
	c.mu.Lock()
	seen, known := c.checked[f.Digest]
	c.mu.Unlock()
	if known && seen.Equal(info.ModTime()) {
		return true
	}
	found, err := read(path)
	if err != nil || found.Digest != f.Digest {
		_ = os.Remove(path)
		return false
	}
	c.note(f.Digest)
	return true
}

func (c *Cache) note(digest string) {
	info, err := os.Stat(c.folder().blob(digest))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[digest] = info.ModTime()
}

// kept is something that could be evicted.
type kept struct {
	path string
	used time.Time
}

// makeRoom evicts what was used longest ago, until size bytes more are within the
// limit. What modules use stays.
func (c *Cache) makeRoom(size int64) error {
	limit := cmp.Or(c.Limit, DefaultLimit)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		total, held, old := c.survey()
		if total+size <= limit {
			return nil
		}
		if held+size > limit || len(old) == 0 {
			return &fullError{Folder: c.Dir, Need: size, Held: held, Limit: limit}
		}
		oldest := slices.MinFunc(old, func(a, b kept) int { return a.used.Compare(b.used) })
		if err := os.RemoveAll(oldest.path); err != nil {
			return fmt.Errorf("content: evicting from %s: %w", c.Dir, err)
		}
	}
}

// survey adds up the files of the cache, and those in use, and lists what may go:
// trees, and files of no tree.
func (c *Cache) survey() (total, held int64, old []kept) {
	for digest := range c.held {
		if info, err := os.Stat(c.folder().blob(digest)); err == nil {
			held += info.Size()
		}
	}
	blobs := filepath.Join(c.Dir, "sha256")
	for _, info := range infos(blobs) {
		total += info.Size()
		single := true
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			single = s.Nlink == 1
		}
		if single && c.held["sha256:"+info.Name()] == 0 && !underWay(info) {
			old = append(old, kept{path: filepath.Join(blobs, info.Name()), used: info.ModTime()})
		}
	}
	trees := filepath.Join(c.Dir, "trees")
	for _, info := range infos(trees) {
		if c.trees[info.Name()] == 0 && !underWay(info) {
			old = append(old, kept{path: filepath.Join(trees, info.Name()), used: info.ModTime()})
		}
	}
	return total, held, old
}

// underWay reports that some process is writing it, or was killed not long ago.
func underWay(info fs.FileInfo) bool {
	return strings.HasPrefix(info.Name(), ".") && time.Since(info.ModTime()) < time.Hour
}

func infos(folder string) (all []fs.FileInfo) {
	entries, _ := os.ReadDir(folder) // none yet is none
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all = append(all, info)
		}
	}
	return all
}

// Place makes the files of a module ready on this host and gives the module with
// paths to them. release ends the module's use of them; until then they stay. A module without
// Content stays as it is: it was applied before files had digests, or needs none. The error is
// a *missingError, *fullError, or the context's.
func (c *Cache) Place(ctx context.Context, m pipelines.Module) (placed pipelines.Module, release func(), err error) {
	if len(m.Content) == 0 {
		return m, func() {}, nil
	}
	names := layout(m.Content)
	for i, f := range m.Content {
		if err := pipelines.CheckDigest(f.Digest); err != nil || !filepath.IsLocal(names[i]) || f.Size < 0 {
			return m, nil, fmt.Errorf("content: module %q: its file %q cannot be placed; apply it again with this version", m.Name, f.Path)
		}
	}
	tree := treeName(names, m.Content)
	release = c.hold(tree, m.Content)
	for _, f := range m.Content {
		if err := c.ready(ctx, f); err != nil {
			release()
			return m, nil, fmt.Errorf("content: module %q: %w", m.Name, err)
		}
	}
	root := filepath.Join(c.Dir, "trees", tree)
	if root, err = filepath.Abs(root); err == nil {
		err = c.folder().full(pipelines.File{}, c.linkFiles(root, names, m.Content))
	}
	if err != nil {
		release()
		return m, nil, fmt.Errorf("content: module %q: %w", m.Name, err)
	}
	_ = c.makeRoom(0) // what was put there by others may be too much; nothing is to come that would not fit
	return moved(m, root, names), release, nil
}

// layout are the paths of files below the folder that has them all.
func layout(files []pipelines.File) []string {
	parts := make([][]string, len(files))
	for i, f := range files {
		parts[i] = strings.Split(filepath.ToSlash(f.Path), "/")
	}
	common := 0
	for len(parts) > 0 && common < len(parts[0])-1 {
		same := func(p []string) bool { return common < len(p)-1 && p[common] == parts[0][common] }
		if !allOf(parts, same) {
			break
		}
		common++
	}
	names := make([]string, len(files))
	for i, p := range parts {
		names[i] = filepath.Join(p[common:]...)
	}
	return names
}

func allOf[T any](all []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(all, func(x T) bool { return !holds(x) })
}

// treeName is the same for the same files under the same names.
func treeName(names []string, files []pipelines.File) string {
	h := sha256.New()
	for i, f := range files {
		_ = json.NewEncoder(h).Encode([]any{names[i], f.Digest}) // a hash takes everything
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// linkFiles links the files into a folder, unless it is there.
func (c *Cache) linkFiles(root string, names []string, files []pipelines.File) error {
	now := time.Now()
	if os.Chtimes(root, now, now) == nil && c.whole(root, names, files) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(root), ".part-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	for i, f := range files {
		at := filepath.Join(part, names[i])
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.Link(c.folder().blob(f.Digest), at); err != nil {
			return err
		}
	}
	err = os.Rename(part, root)
	if errors.Is(err, fs.ErrExist) { // another process was faster, or what was there is not whole
		if c.whole(root, names, files) {
			return nil
		}
		if err = os.RemoveAll(root); err == nil {
			err = os.Rename(part, root)
		}
	}
	return err
}

// whole reports whether every file of a tree is the one of the cache.
func (c *Cache) whole(root string, names []string, files []pipelines.File) bool {
	for i, f := range files {
		in, err := os.Stat(filepath.Join(root, names[i]))
		blob, missing := os.Stat(c.folder().blob(f.Digest))
		if err != nil || missing != nil || !os.SameFile(in, blob) {
			return false
		}
	}
	return true
}

// moved is the module with paths below root.
func moved(m pipelines.Module, root string, names []string) pipelines.Module {
	at := func(path string) string {
		for i, f := range m.Content {
			if f.Path == path {
				return filepath.Join(root, names[i])
			}
			if folder, ok := strings.CutPrefix(f.Path, path+"/"); ok && path != "" { // a folder with files in it
				return filepath.Join(root, strings.TrimSuffix(filepath.ToSlash(names[i]), folder))
			}
		}
		return path
	}
	address, _ := fetchedFrom(m.Model)
	m.Model = at(address)
	m.Command, m.Files = slices.Clone(m.Command), slices.Clone(m.Files)
	for i := range m.Command {
		m.Command[i] = at(m.Command[i])
	}
	for i := range m.Files {
		m.Files[i] = at(m.Files[i])
	}
	m.Parameters = maps.Clone(m.Parameters)
	for name, value := range m.Parameters {
		if path, ok := value.(string); ok && pipelines.IsFileParameter(name) {
			m.Parameters[name] = at(path)
		}
	}
	return m
}
