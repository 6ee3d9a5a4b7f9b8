package executors

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire/secure"
)

// Confinement is what declarations may have a host read, run and call. A list without
// entries confines nothing.
type Confinement struct {
	// Folders are those from which models and files may be read by their paths. What comes
	// by its digest has been applied by somebody who has it, and may come from anywhere.
	Folders []string

	// Commands are the programs that modules may run, as declarations write them. One that
	// interprets its arguments, such as a shell, allows everything.
	Commands []string

	// Addresses are HOST or HOST:PORT of servers that may be asked for models or answers.
	Addresses []string
}

// Check says why a module must not run on the host.
func (c Confinement) Check(m pipelines.Module) error {
	if len(m.Command) > 0 && len(c.Commands) > 0 && !slices.Contains(c.Commands, m.Command[0]) {
		return fmt.Errorf("module %q wants to run %q, which this host does not allow; start its worker with --allow-command %s if it is to be trusted", m.Name, m.Command[0], m.Command[0])
	}
	if pipelines.IsRemote(m.Model) || pipelines.IsFetched(m.Model) {
		return c.checkAddress(m)
	}
	if len(c.Folders) == 0 {
		return nil
	}
	for _, path := range slices.Concat([]string{m.Model}, m.Files, m.ParameterFiles()) {
		if path != "" && !byDigest(m, path) && !within(path, c.Folders) {
			return fmt.Errorf("module %q wants to read %q, which is in no folder that this host allows; start its worker with --allow-folder %s if it is to be trusted", m.Name, path, filepath.Dir(path))
		}
	}
	return nil
}

func (c Confinement) checkAddress(m pipelines.Module) error {
	to, ok := secure.Leads(m.Model, c.Addresses)
	if ok {
		return nil
	}
	return fmt.Errorf("module %q wants to call %s, which this host does not allow; start its worker with --allow-address %s if it is to be trusted", m.Name, to, to)
}

func byDigest(m pipelines.Module, path string) bool {
	return slices.ContainsFunc(m.Content, func(f pipelines.File) bool { return f.Path == path && f.Digest != "" })
}

// within says whether a path leads into one of the folders, also through links.
func within(path string, folders []string) bool {
	path = resolved(path)
	return slices.ContainsFunc(folders, func(folder string) bool {
		rest, err := filepath.Rel(resolved(folder), path)
		return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(os.PathSeparator))
	})
}

// resolved is where a path really leads; of one that does not exist, where it would.
func resolved(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}
