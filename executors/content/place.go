package content

import (
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
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// Place makes the files of a module ready on this host and gives the module with
// paths to them. release says that the module no longer needs them; until then they
// stay. A module without Content stays as it is: it was applied before files had
// digests, or needs none. The error is a *MissingError, *FullError, or the
// context's.
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

// whole says whether every file of a tree is the one of the cache.
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
