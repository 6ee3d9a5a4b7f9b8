package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/workflows/control"
)

// PlanOrigin states what the plans of a file were made from, so that apply --plan can check
// whether they still hold.
type PlanOrigin struct {
	Version     string             `json:"version"` // of the program
	Paths       []string           `json:"paths"`   // of the declaration
	Vars        []string           `json:"vars,omitempty"`
	VarFiles    []string           `json:"var_files,omitempty"`
	Planning    pipelines.Planning `json:"planning,omitzero"` // flags
	Declared    string             `json:"declared"`          // digest of the services, profiles included
	Fleet       string             `json:"fleet,omitempty"`   // digest of devices and what others hold; empty where no system ran
	Generations map[string]int     `json:"generations"`       // of the services, where a system ran
	Digest      string             `json:"digest"`            // of the file
}

// newPlanOrigin notes what plans are made from.
func newPlanOrigin(x *Declaration, f *PlanningFlags, paths []string, specs []scheduler.Spec, fleet *scheduler.Fleet) (*PlanOrigin, error) {
	m := &PlanOrigin{Version: x.Deps.Version, Vars: x.Vars, Planning: f.Given, Declared: digest(specs), Generations: map[string]int{}}
	if fleet != nil {
		m.Fleet = digest(fleet)
	}
	for to, all := range map[*[]string][]string{&m.Paths: paths, &m.VarFiles: x.Files} {
		for _, path := range all {
			at, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			*to = append(*to, at)
		}
	}
	return m, nil
}

// RecordGenerations notes which generations of the services are in force.
func (m *PlanOrigin) RecordGenerations(ctx context.Context, commands *control.Control, specs []scheduler.Spec) (err error) {
	m.Generations, err = generations(ctx, commands, specs)
	return err
}

// generations are those in force; a service that does not run has none.
func generations(ctx context.Context, commands *control.Control, specs []scheduler.Spec) (map[string]int, error) {
	all := map[string]int{}
	for _, spec := range specs {
		s, err := commands.Status(ctx, spec.Name())
		switch {
		case errors.Is(err, control.ErrNotFound):
		case err != nil:
			return nil, err
		case s.Requested != nil:
			all[spec.Name()] = s.Requested.Generation
		default:
			all[spec.Name()] = s.Generation
		}
	}
	return all, nil
}

func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // and no digest is
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// planFile is what plan --out writes: what plan --json prints, and from what it was made.
type planFile struct {
	Plans     []plan.Plan      `json:"plans"`
	Pools     []pool.Plan      `json:"pools,omitempty"`
	Functions []functions.Plan `json:"functions,omitempty"`
	Clusters  []cluster.Plan   `json:"clusters,omitempty"`
	Made      *PlanOrigin      `json:"made,omitempty"`
}

// MarshalSealed writes a value with a field Made, which is given the digest of all of it.
func MarshalSealed(v any, made *PlanOrigin) ([]byte, error) {
	made.Digest = ""
	for range 2 {
		var text bytes.Buffer
		if err := writeJSON(&text, v); err != nil {
			return nil, err
		}
		if made.Digest != "" {
			return text.Bytes(), nil
		}
		sum, err := sealOf(text.Bytes())
		if err != nil {
			return nil, err
		}
		made.Digest = sum
	}
	return nil, errors.New("command: no digest")
}

// partsOf are the fields of a file, and of what it states of how it was made: of those that
// stand twice the last one.
func partsOf(text []byte) (parts, made map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, nil, err
	}
	if len(parts["made"]) > 0 {
		err = json.Unmarshal(parts["made"], &made)
	}
	return parts, made, err
}

// sealOf is the digest of a file whatever its white space, and without that in it.
func sealOf(text []byte) (string, error) {
	parts, made, err := partsOf(text)
	if err != nil {
		return "", err
	}
	delete(made, "digest")
	delete(parts, "made")
	var all bytes.Buffer
	for _, object := range []map[string]json.RawMessage{parts, made} {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			all.WriteString(name + "\n")
			if err := json.Compact(&all, object[name]); err != nil {
				return "", err
			}
		}
	}
	sum := sha256.Sum256(all.Bytes())
	return hex.EncodeToString(sum[:]), nil
}

// readPlanFile reads a file that plan --out wrote with this version of the program; an
// edited one is refused.
func readPlanFile(path, version string) (*planFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	var f planFile
	if err := f.parse(text); err != nil {
		return nil, fmt.Errorf("--plan %s: it holds something else than plans (%w); write it with harpagon plan --out", path, err)
	}
	if f.Made == nil {
		return nil, fmt.Errorf("--plan %s: it does not name the declaration that it was made from; write it again with harpagon plan --out", path)
	}
	if f.Made.Version != version {
		return nil, fmt.Errorf("--plan %s: version %s of harpagon has made it, and this is %s, which may plan otherwise; make it again with harpagon plan --out", path, f.Made.Version, version)
	}
	if sum, err := sealOf(text); err != nil || sum != f.Made.Digest {
		return nil, fmt.Errorf("--plan %s: it was changed after it was made, so that nobody has planned it; change the declaration instead, and make it again with harpagon plan --out", path)
	}
	return &f, nil
}

// parse reads the fields that the digest is of: of a field that is there twice, decoding
// would mix both.
func (f *planFile) parse(text []byte) error {
	parts, made, err := partsOf(text)
	if err != nil {
		return err
	}
	if made != nil {
		if parts["made"], err = json.Marshal(made); err != nil {
			return err
		}
	}
	if text, err = json.Marshal(parts); err != nil {
		return err
	}
	return json.Unmarshal(text, f)
}

// Of is the plan of a service; nil where the file has none.
func (f *planFile) Of(s scheduler.Spec) *scheduler.Plan {
	for _, p := range (Plans{Plans: f.Plans, Pools: f.Pools, Functions: f.Functions, Clusters: f.Clusters}).each() {
		if kind, name := p.Planned().Of(); kind == s.Kind() && name == s.Name() {
			return &p
		}
	}
	return nil
}

// Declaration reads the files that the plans were made from.
func (m *PlanOrigin) Declaration(x *Declaration, f *PlanningFlags, state string) (*pipelines.Document, error) {
	x.Vars, x.Files, f.Given = m.Vars, m.VarFiles, m.Planning
	doc, err := f.Servable(x, m.Paths)
	if err != nil {
		return nil, err
	}
	filled := *doc
	filled.Pipelines, filled.Pools = slices.Clone(doc.Pipelines), slices.Clone(doc.Pools)
	for i := range filled.Pipelines {
		filled.Pipelines[i].Modules = slices.Clone(filled.Pipelines[i].Modules)
	}
	if err := (&stateFlag{Dir: state}).Fill(&filled); err != nil {
		return nil, err
	}
	if digest(scheduler.Specs(&filled)) != m.Declared {
		return nil, errors.New("the declaration, or a profile, has changed since these plans were made; make them again with harpagon plan --out")
	}
	return doc, nil
}

// VerifyCurrent returns why the plans must not be applied to the system as it is now.
func (m *PlanOrigin) VerifyCurrent(ctx context.Context, d *Deps, commands *control.Control, state string, specs []scheduler.Spec) error {
	now, err := generations(ctx, commands, specs)
	if err != nil {
		return err
	}
	for _, s := range specs {
		if was, is := m.Generations[s.Name()], now[s.Name()]; was != is {
			return fmt.Errorf("%s %s is at generation %d, and was at %d when this was planned; make the plans again with harpagon plan --out", s.Kind(), s.Name(), is, was)
		}
	}
	if m.Fleet == "" {
		return nil // no system ran then; placement finds out whether there is room
	}
	fleet, runs, err := (&stateFlag{Dir: state}).Fleet(ctx, d, specs)
	if err == nil && (!runs || digest(&fleet) != m.Fleet) {
		err = errors.New("devices, or what other services hold of them, have changed since these plans were made; make them again with harpagon plan --out")
	}
	return err
}
