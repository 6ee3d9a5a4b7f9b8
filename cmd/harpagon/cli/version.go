package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// versionReport is the JSON of the command.
type versionReport struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Time     string   `json:"time,omitempty"`     // of the commit
	Modified bool     `json:"modified,omitempty"` // built from a tree that differs from the commit
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Embedded bool     `json:"embedded"` // has a Temporal server of its own: up and demo work
	Engines  []string `json:"engines"`  // compiled in; harpagon engines lists which are ready
}

func newVersionCommand(d *Deps) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print this version, and what it was built with",
		Example: `  harpagon version
  harpagon version --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r := reportVersion(d)
			if asJSON {
				return writeJSON(d.Stdout, r)
			}
			_, err := fmt.Fprint(d.Stdout, r.describe())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func reportVersion(d *Deps) versionReport {
	r := versionReport{
		Version: d.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Embedded: d.Start != nil, Engines: engineNames(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Commit = s.Value
		case "vcs.time":
			r.Time = s.Value
		case "vcs.modified":
			r.Modified = s.Value == "true"
		}
	}
	return r
}

// engineNames are those that are compiled in.
func engineNames() []string {
	names := []string{}
	for _, e := range system.Engines(system.EngineOptions{}) {
		if name := e.Name(); name != executors.EngineEmulated {
			names = append(names, name)
		}
	}
	return append(names, executors.EngineEmulated)
}

func (r versionReport) describe() string {
	commit := r.Commit
	switch {
	case commit == "":
		commit = "not known"
	case r.Modified:
		commit += ", modified"
	}
	if r.Time != "" {
		commit += " (" + r.Time + ")"
	}
	embedded := "no: it runs roles against a Temporal server elsewhere"
	if r.Embedded {
		embedded = "yes"
	}
	return fmt.Sprintf("harpagon  %s\ncommit    %s\ngo        %s, %s\nembedded  %s\nengines   %s\n",
		r.Version, commit, r.Go, r.Platform, embedded, wrapped(strings.Join(r.Engines, ", "), lineWidth-10, "          "))
}
