package activities

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// ProfileStore keeps measured points as files, one a key. The zero value keeps
// nothing.
type ProfileStore struct {
	Dir string // created when first needed
}

// ProfileKey is what the points hold for. When one field changes, they are
// stale: nothing is found under the new key.
type ProfileKey struct {
	Model    string                    `json:"model"` // content.Digest
	Engine   string                    `json:"engine"`
	Version  string                    `json:"version"` // of the engine
	Hardware string                    `json:"hardware"`
	Machine  string                    `json:"machine"`
	Feeds    map[string]pipelines.Port `json:"feeds,omitempty"`
	Rows     map[string]float64        `json:"rows,omitempty"`
	Cores    int                       `json:"cores,omitempty"`   // of an instance
	Queries  bool                      `json:"queries,omitempty"` // of a pool, with the way to the instance
	Method   int                       `json:"method"`            // executors.MeasureMethod
}

// profileFile is the content of a file; the key is there for people.
type profileFile struct {
	Key    ProfileKey        `json:"key"`
	Points []pipelines.Point `json:"points"`
}

// Load returns the points under a key, none when there are none. A file that
// cannot be understood counts as none: measuring again mends it.
func (s ProfileStore) Load(key ProfileKey) ([]pipelines.Point, error) {
	path, err := s.path(key)
	if err != nil || path == "" {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("activities: reading a kept profile: %w", err)
	}
	var f profileFile
	if json.Unmarshal(b, &f) != nil {
		return nil, nil
	}
	return f.Points, nil
}

// Save replaces the points under a key. A reader sees the old file or the new
// one, never half of it.
func (s ProfileStore) Save(key ProfileKey, points []pipelines.Point) error {
	path, err := s.path(key)
	if err != nil || path == "" || len(points) == 0 {
		return err
	}
	b, err := json.MarshalIndent(profileFile{Key: key, Points: points}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("activities: creating the folder of kept profiles: %w", err)
	}
	if err := osutil.ReplaceFile(path, b, 0o600); err != nil {
		return fmt.Errorf("activities: keeping a profile: %w", err)
	}
	return nil
}

func (s ProfileStore) path(key ProfileKey) (string, error) {
	if s.Dir == "" {
		return "", nil
	}
	b, err := json.Marshal(key) // maps are written in order of their keys
	if err != nil {
		return "", fmt.Errorf("activities: naming a profile: %w", err)
	}
	sum := sha256.Sum256(b)
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:12])+".json"), nil
}

// merge joins points; of two for the same configuration the later one counts.
// The result is sorted by hardware, batch and concurrency.
func merge(sets ...[]pipelines.Point) []pipelines.Point {
	var all []pipelines.Point
	for _, p := range slices.Concat(sets...) {
		same := func(q pipelines.Point) bool {
			return q.Hardware == p.Hardware && q.Batch == p.Batch && max(q.Concurrency, 1) == max(p.Concurrency, 1)
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i] = p
		} else {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b pipelines.Point) int {
		return cmp.Or(cmp.Compare(a.Hardware, b.Hardware), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Concurrency, b.Concurrency))
	})
	return all
}
