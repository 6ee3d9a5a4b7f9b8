package executors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/harpagon/harpagon/pipelines"
)

// Digest names what a module computes, as "sha256:" and hexadecimal digits: it
// changes when the bytes of the model change, or the function or one of its
// parameters. Profiles are kept under it. A module that is neither is known by
// its profile alone. The error is that of reading the model.
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
	case m.Model != "":
		err = digestFile(h, m.Model)
	default:
		err = digestJSON(h, "profile", m.Profile)
	}
	if err != nil {
		return "", fmt.Errorf("executors: module %q: %w", m.Name, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func digestJSON(h hash.Hash, parts ...any) error {
	return json.NewEncoder(h).Encode(parts)
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
