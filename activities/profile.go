package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// ProfileModule measures one module on one device and keeps the points. It
// heartbeats what it has after every round; the next attempt goes on from there,
// and from what the store holds, so nothing is measured twice, unless it is to
// measure again.
func (h *Host) ProfileModule(ctx context.Context, in ProfileInput) (ProfileResult, error) {
	began := time.Now()
	result := ProfileResult{Module: in.Module}
	measured := resumed(ctx)
	so := latest{measured: measured}
	stop := beat(ctx, so.get) // the files of models may have far to come
	defer stop()
	task := executors.NewMeasureTask(in.Pipeline, in.Module, in.Hardware, in.Device, h.Signatures)
	task.Cores = in.Cores
	kept := Profiles{Store: h.Store, Machine: h.Machine, EngineFor: h.Executors.EngineFor}
	if _, err := kept.key(task); err != nil {
		return result, temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
	}
	task, err := h.Executors.Fit(ctx, task)
	if err != nil {
		return result, loading(ctx, err)
	}
	if !in.Again {
		known, err := kept.Load(task)
		if err != nil {
			return result, err
		}
		measured.Points = merge(known, measured.Points)
		so.set(measured)
	}
	missing := len(task.Missing(measured.Points))
	points, err := h.Executors.Measure(ctx, task, measured, func(m executors.Measured) {
		so.set(m)
		activity.RecordHeartbeat(ctx, m)
	})
	if err != nil {
		return result, loading(ctx, err)
	}
	result.Points = points
	result.Measured = missing - len(task.Missing(points)) // sizes may be more than the device has memory for
	result.Reused = len(points) - result.Measured
	result.Took = time.Since(began)
	return result, kept.Save(task, points)
}

// KeepProfile keeps the points of one kind of hardware, measured while serving,
// in place of those that were measured before.
func (h *Host) KeepProfile(_ context.Context, in KeepInput) error {
	task := executors.NewMeasureTask(in.Pipeline, in.Module, in.Hardware, "", h.Signatures)
	task.Cores = in.Cores
	own := slices.DeleteFunc(slices.Clone(in.Points), func(p pipelines.Point) bool { return !task.Wants(p) })
	kept := Profiles{Store: h.Store, Machine: h.Machine, EngineFor: h.Executors.EngineFor}
	return kept.Save(task, own)
}

// resumed is how far an earlier attempt came.
func resumed(ctx context.Context) executors.Measured {
	var m executors.Measured
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &m) != nil {
		return executors.Measured{} // details of an older version: measure again
	}
	return m
}

// latest is what heartbeats carry.
type latest struct {
	mu       sync.Mutex
	measured executors.Measured
}

func (l *latest) set(m executors.Measured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured = m
}

func (l *latest) get() any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.measured
}

// Profiles are the kept profiles of one machine.
type Profiles struct {
	Store     ProfileStore
	Machine   string // kind of machine; see Host
	EngineFor func(pipelines.Module) (executors.Engine, error)
}

// Load returns the points of a task, as far as they are kept.
func (p Profiles) Load(t executors.MeasureTask) ([]pipelines.Point, error) {
	key, err := p.key(t)
	if err != nil {
		return nil, err
	}
	kept, err := p.Store.Load(key)
	return slices.DeleteFunc(kept, func(p pipelines.Point) bool { return !t.Wants(p) }), err
}

// Save keeps points, beside those that are kept for other batch sizes.
func (p Profiles) Save(t executors.MeasureTask, points []pipelines.Point) error {
	key, err := p.key(t)
	if err != nil {
		return err
	}
	kept, err := p.Store.Load(key)
	if err != nil {
		return err
	}
	return p.Store.Save(key, merge(kept, points))
}

// key names the profile: it goes stale when model, engine, machine, what is fed
// to the module or the way of measuring changes.
func (p Profiles) key(t executors.MeasureTask) (ProfileKey, error) {
	if t.Module.Name == "" {
		return ProfileKey{}, fmt.Errorf("activities: the pipeline has no such module; profile one that is declared")
	}
	engine, err := p.EngineFor(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	digest, err := content.Digest(t.Module)
	if err != nil {
		return ProfileKey{}, err
	}
	return ProfileKey{
		Model: digest, Engine: engine.Name(), Version: engine.Version(),
		Hardware: t.Hardware, Machine: p.Machine, Feeds: t.Feeds, Outputs: slices.Sorted(slices.Values(t.Outputs)), Rows: t.OutputRows, Cores: t.Cores, Queries: t.Module.Sized, Method: executors.MeasureMethod,
	}, nil
}

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
	Outputs  []string                  `json:"outputs,omitempty"` // that the pipeline uses; others are not computed
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
