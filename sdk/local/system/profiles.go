package system

import (
	"io/fs"
	"os"
	"slices"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/roles"
)

// Exists says whether there is such a folder.
func (f Folder) Exists() bool {
	info, err := os.Stat(string(f))
	return err == nil && info.Mode()&fs.ModeDir != 0
}

// Kept is what has been measured on this machine and is kept in the folder.
func (f Folder) Kept(engines []executors.Engine) activities.Profiles {
	host := &executors.Host{Engines: engines}
	return activities.Profiles{
		Store: activities.ProfileStore{Dir: f.Profiles()}, Machine: roles.Machine(), EngineFor: host.EngineFor,
	}
}

// Fill gives modules without a profile the points that the folder keeps, on the
// hardware that the document declares and the module may run on. Modules of
// which it keeps nothing stay without.
func (f Folder) Fill(doc *pipelines.Document, engines []executors.Engine) error {
	kept := f.Kept(engines)
	signatures := executors.Signatures(engines...)
	for i := range doc.Pipelines {
		p := &doc.Pipelines[i]
		for k := range p.Modules {
			m := &p.Modules[k]
			if len(m.Profile.Points) > 0 {
				continue
			}
			points, err := find(kept, *p, *m, doc.Hardware, signatures)
			if err != nil {
				return err
			}
			m.Profile.Points = points
		}
	}
	for i := range doc.Pools {
		if p := &doc.Pools[i]; p.Unmeasured() && !p.Learned {
			served := p.Served()
			points, err := find(kept, served, served.Modules[0], doc.Hardware, signatures)
			if err != nil {
				return err
			}
			p.Profile.Points = points
		}
	}
	return nil
}

// find loads what is kept of a module on the hardware that it may run on.
func find(kept activities.Profiles, p pipelines.Pipeline, m pipelines.Module, hardware []pipelines.Hardware, signatures pipelines.SignatureFunc) (points []pipelines.Point, err error) {
	for _, h := range hardware {
		if len(m.Hardware) > 0 && !slices.Contains(m.Hardware, h.Name) {
			continue
		}
		task := executors.NewMeasureTask(p, m.Name, h.Name, "", signatures)
		task.Cores = h.Cores
		found, err := kept.Load(task)
		if err != nil {
			return nil, err
		}
		points = append(points, found...)
	}
	return points, nil
}
