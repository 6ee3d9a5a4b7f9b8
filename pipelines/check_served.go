package pipelines

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
)

// served checks the parts of a module that only these engines have: an address
// instead of a file, and a command.
func (v *validator) served(m *Module, path string) {
	open := m.Engine == "" || m.Engine == "auto" || m.Engine == "emulated"
	switch {
	case m.Engine == EngineRemote && !IsRemote(m.Model):
		v.errorf(orPlace(v, path, ".model"), "No address", "The engine remote asks a server for the model; %s.", RemoteForm)
	case IsRemote(m.Model) && !open && m.Engine != EngineRemote:
		v.errorf(path+".engine", "Address without the remote engine", "The engine %q reads a file, but the model is on a server. Leave engine out, or say \"remote\".", m.Engine)
	case IsRemote(m.Model):
		if _, err := ParseRemote(m.Model); err != nil {
			v.errorf(path+".model", "Invalid address", "%s.", sentence(err))
		}
	case IsFetched(m.Model):
		if _, digest := FetchAddress(m.Model); strings.Contains(m.Model, "#") && CheckDigest(digest) != nil {
			v.errorf(path+".model", "Invalid digest", "What follows # in the address of a file is its digest: %s.", CheckDigest(digest))
		}
	}
	if len(m.Files) > 0 && len(m.Command) == 0 {
		v.errorf(path+".files", "Files without a command", "These are files that a command needs besides its arguments; other engines find what a model needs by themselves.")
	}
	for _, f := range m.Files {
		if v.elsewhere {
			break
		}
		info, err := v.stat(f)
		switch {
		case err != nil:
			v.errorf(path+".files", "Missing file", "%s does not exist; paths are relative to the folder of this file.", f)
		case !info.IsDir() && osutil.RegularFile(f, info) != nil:
			v.errorf(path+".files", "Unusable file", "%v.", osutil.RegularFile(f, info))
		}
	}
	switch {
	case m.Engine == EngineProcess && len(m.Command) == 0:
		v.errorf(path+".engine", "No command", "The engine process starts a program that serves the model: command = [\"python3\", \"./serve.py\"].")
	case len(m.Command) > 0 && m.Command[0] == "":
		v.errorf(path+".command", "No command", "The first element of a command is the program.")
	case len(m.Command) > 0 && m.Function != "":
		v.errorf(path+".command", "Two kinds of module", "A module is either a processing step (function) or served by a command.")
	case len(m.Command) > 0 && !open && m.Engine != EngineProcess:
		v.errorf(path+".engine", "Command without the process engine", "The engine %q starts no command. Leave engine out, or say \"process\".", m.Engine)
	case len(m.Command) > 0 && IsRemote(m.Model):
		v.errorf(path+".command", "Command beside an address", "The model is on a server already; leave out either.")
	}
}

// orPlace is where an attribute stands, or else its block.
func orPlace(v *validator, path, attribute string) string {
	if v.missing(path + attribute) {
		return path
	}
	return path + attribute
}

// sentence begins with a capital letter, as findings do.
func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// CheckServable says why a declaration can be planned and not served; nil where it can
// be.
func CheckServable(doc *Document) error {
	for _, f := range doc.Functions {
		if p := doc.Provider(f.Provider); p != nil && p.URL == "" {
			return fmt.Errorf("provider %q has no url, so function %q can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\", and start harpagon provider to stand in for it on this machine", p.Name, f.Name)
		}
	}
	return nil
}
