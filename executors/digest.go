package executors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/harpagon/harpagon/pipelines"
)

// Digest names what a module computes, as "sha256:" and hexadecimal digits: it
// changes when the bytes of the model change, or the function or one of its
// parameters, or the constants that are bound to inputs. Profiles are kept under it. A module that is neither is known by
// its profile alone; of a model on a server only its address is. The error is that of reading the model.
func Digest(m pipelines.Module) (string, error) {
	h := sha256.New()
	var err error
	switch {
	case m.Function != "":
		parameters := m.Parameters
		if parameters == nil {
			parameters = map[string]any{}
		}
		err = digestJSON(h, "function", m.Function, parameters) // maps are written in order of their keys
	case pipelines.IsRemote(m.Model):
		err = digestJSON(h, "remote", m.Model)
	case len(m.Command) > 0:
		err = digestCommand(h, m)
	case m.Model != "":
		err = digestFile(h, m.Model)
	default:
		err = digestJSON(h, "profile", m.Profile)
	}
	if err == nil {
		err = digestUse(h, m)
	}
	if err != nil {
		return "", fmt.Errorf("executors: module %q: %w", m.Name, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// digestUse takes in constants and where the batch is, where a module says so.
func digestUse(h hash.Hash, m pipelines.Module) error {
	constants := map[string]any{}
	for _, b := range m.Inputs {
		if b.IsConstant() {
			constants[b.Name] = b.Value
		}
	}
	if len(constants) == 0 && !m.Unbatched && len(m.BatchAxis) == 0 {
		return nil
	}
	return digestJSON(h, "use", constants, m.Unbatched, m.BatchAxis)
}

func digestJSON(h hash.Hash, parts ...any) error {
	return json.NewEncoder(h).Encode(parts)
}

// digestCommand also takes in the files that the command line names, such as
// scripts, and the model where that is a file.
func digestCommand(h hash.Hash, m pipelines.Module) error {
	if err := digestJSON(h, "command", m.Command, m.Model); err != nil {
		return err
	}
	for _, path := range append([]string{m.Model}, m.Command...) {
		info, err := os.Stat(path)
		if path == "" || !filepath.IsAbs(path) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := digestFile(h, path); err != nil {
			return err
		}
	}
	return nil
}

func digestFile(h hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading its model: %w", err)
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}
