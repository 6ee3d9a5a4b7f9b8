package content

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

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
