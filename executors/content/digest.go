package content

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// maxFile bounds one file, in bytes: more than the weights that any host loads.
const maxFile = 100 << 30

func tooLarge(what string) error {
	return fmt.Errorf("%s has more than %s, which no file of a module has", what, quantity.Bytes(maxFile))
}

// digestOf writes a digest down.
func digestOf(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// Sum is the digest of everything that a reader gives, and its size.
func Sum(r io.Reader) (digest string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	return digestOf(h.Sum(nil)), size, err
}

// read describes a file of this machine.
func read(path string) (pipelines.File, error) {
	f, info, err := osutil.OpenFile(path)
	if err != nil {
		return pipelines.File{}, err
	}
	defer f.Close()
	if info.Size() > maxFile {
		return pipelines.File{}, tooLarge(path)
	}
	digest, size, err := Sum(io.LimitReader(f, info.Size()+1)) // it may grow, for ever
	if err == nil && size > info.Size() {
		err = fmt.Errorf("%s is being written to; try again when that has ended", path)
	}
	return pipelines.File{Path: path, Digest: digest, Size: size, Program: info.Mode()&0o111 != 0}, err
}

// Digest names what a module computes, as "sha256:" and hexadecimal digits: it
// changes when the bytes of one of its files change, or the function or one of its
// parameters, or the constants that are bound to inputs, and not with the folder
// that the files lie in. Profiles are kept under it. The files are those of the
// module's Content; those on this machine where it has none. A module that has
// neither model nor function is known by its profile alone; of a model on a server
// only its address is. The error is that of reading a file.
func Digest(m pipelines.Module) (string, error) {
	files := m.Content
	if len(files) == 0 {
		var err error
		if files, err = onDisk(m); err != nil {
			return "", fmt.Errorf("content: module %q: reading its model: %w", m.Name, err)
		}
	}
	used := use(m)
	var parts []any
	switch {
	case m.Function != "":
		parts = []any{"function", m.Function, identified(m.Parameters, files)}
		files = nil
	case pipelines.IsRemote(m.Model):
		parts = []any{"remote", m.Model}
	case len(m.Command) > 0:
		parts = []any{"command", commanded(m.Command, files)}
	case len(files) == 1 && used == nil:
		return files[0].Digest, nil // as other tools print it
	case m.Model != "":
		parts = []any{"model"}
	default:
		parts = []any{"profile", m.Profile}
	}
	for _, f := range files {
		parts = append(parts, f.Digest)
	}
	h := sha256.New()
	err := json.NewEncoder(h).Encode(parts) // maps are written in order of their keys
	if err == nil && used != nil {
		err = json.NewEncoder(h).Encode(used)
	}
	if err != nil {
		return "", fmt.Errorf("content: module %q: %w", m.Name, err)
	}
	return digestOf(h.Sum(nil)), nil
}

// use is what a module declares of constants, batch axes and libraries; nil where it declares
// none.
func use(m pipelines.Module) []any {
	constants := map[string]any{}
	for _, b := range m.Inputs {
		if b.IsConstant() {
			constants[b.Name] = b.Value
		}
	}
	if len(constants) == 0 && !m.Unbatched && len(m.BatchAxis) == 0 && len(m.Libraries) == 0 && !m.State {
		return nil
	}
	all := []any{"use", constants, m.Unbatched, m.BatchAxis}
	if len(m.Libraries) > 0 {
		all = append(all, m.Libraries)
	}
	if m.State {
		all = append(all, "state")
		if len(m.Loops) > 0 {
			all = append(all, m.Loops)
		}
	}
	return all
}

// identified are parameters with digests in place of paths.
func identified(parameters map[string]any, files []pipelines.File) map[string]any {
	all := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		all[name] = parameters[name]
		if path, ok := parameters[name].(string); ok && pipelines.IsFileParameter(name) {
			all[name] = contentOf(path, files)
		}
	}
	return all
}

// commanded are arguments with digests in place of paths.
func commanded(arguments []string, files []pipelines.File) []string {
	all := slices.Clone(arguments)
	for i := range all {
		all[i] = contentOf(all[i], files)
	}
	return all
}

// contentOf is the digest of the file at a path, and the path itself where that is
// none of the files.
func contentOf(path string, files []pipelines.File) string {
	for _, f := range files {
		if f.Path == path {
			return cmp.Or(f.Digest, path)
		}
	}
	return path
}

// mostFiles bounds the files of a folder that a command names.
const mostFiles = 10000

// needs are the paths of all files that a module reads where it runs, sorted. Of a
// command these are the model, the arguments after the program that are files, and
// those that are declared beside it; folders count with all that is in them.
func needs(m pipelines.Module) ([]string, error) {
	var all []string
	var err error
	switch {
	case m.Function != "":
		all = m.ParameterFiles()
	case len(m.Command) > 0:
		all, err = commandFiles(m)
	case m.Model != "" && !strings.Contains(m.Model, "://"):
		all = []string{m.Model}
		var beside []string
		beside, err = onnx.ExternalData(m.Model)
		for _, name := range beside {
			all = append(all, filepath.Join(filepath.Dir(m.Model), filepath.FromSlash(name)))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

func commandFiles(m pipelines.Module) (all []string, err error) {
	paths := slices.Concat([]string{m.Model}, m.Command[1:], m.Files)
	for _, path := range paths {
		if path == "" || !filepath.IsAbs(path) {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil && slices.Contains(m.Files, path):
			return nil, err
		case err != nil: // an argument that only looks like a path
		case info.Mode().IsRegular():
			all = append(all, path)
		case !info.IsDir() && slices.Contains(m.Files, path):
			return nil, osutil.RegularFile(path, info)
		case info.IsDir() && (path == m.Model || slices.Contains(m.Files, path)):
			within, err := folderFiles(path)
			if err != nil {
				return nil, err
			}
			all = append(all, within...)
		}
	}
	return all, nil
}

func folderFiles(folder string) (all []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			all = append(all, path)
		}
		if len(all) > mostFiles {
			return fmt.Errorf("%s holds more than %d files; name those that the command needs", folder, mostFiles)
		}
		return nil
	})
	return all, err
}

// onDisk describes the files of a module as they are now. A model that is missing
// where a profile suffices to plan is left out.
func onDisk(m pipelines.Module) ([]pipelines.File, error) {
	paths, err := needs(m)
	if err != nil {
		return nil, err
	}
	var all []pipelines.File
	for _, path := range paths {
		f, err := read(path)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
