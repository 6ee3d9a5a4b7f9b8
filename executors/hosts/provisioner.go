// Package hosts makes and ends hosts for a fleet: it is how a provisioner acts. What to
// make and what to end is decided elsewhere (scheduler/autoscale).
//
// A file of the control role declares, per kind of hardware, what hosts of it are like and
// which commands make and end them: programs written for a cloud, or a script that starts
// `harpagon worker` on this machine. A driver remembers what it has made in a folder, one small
// file a host, written before the host is made and removed after it is gone. So a control role
// may be killed at any time: the next one reads the folder, takes over what lives, and ends
// what was left half made.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// Provisioner declares how hosts of one kind of hardware are made.
type Provisioner struct {
	Hardware string
	Min, Max int           // hosts
	Devices  int           // that each offers
	Idle     time.Duration // unused for so long a host is ended
	Join     time.Duration // so long a host may take to be part of the fleet
	Commands Commands

	// External means that another program creates and ends the hosts, by the metric
	// harpagon_devices_wanted: services request up to Max more, and nothing is started here.
	External bool
}

// Commands are run with the name of the host as last argument.
type Commands struct {
	Create, Delete []string
	Limit          time.Duration // after which a command is ended
}

// Defaults of what a file leaves out.
const (
	DefaultIdle  = time.Minute
	DefaultJoin  = 5 * time.Minute
	DefaultLimit = 2 * time.Minute
)

// maxFile bounds the file, in bytes; what one host can offer is bounded by maxCount.
const (
	maxFile  = 64 << 10
	maxCount = 100_000
)

type provisionerFile struct {
	Provisioners []provisionerBlock `hcl:"provisioner,block"`
}

type provisionerBlock struct {
	Hardware string         `hcl:"hardware,label"`
	Min      int            `hcl:"min,optional"`
	Max      int            `hcl:"max"`
	Devices  int            `hcl:"devices"`
	Idle     string         `hcl:"idle,optional"`
	Join     string         `hcl:"join,optional"`
	External bool           `hcl:"external,optional"`
	Process  *processBlock  `hcl:"process,block"` // of older files, for an error that names its successor
	Commands *commandsBlock `hcl:"commands,block"`
	At       hcl.Range      `hcl:",def_range"`
}

type processBlock struct {
	Rest hcl.Body `hcl:",remain"`
}

type commandsBlock struct {
	Create []string `hcl:"create"`
	Delete []string `hcl:"delete"`
	Limit  string   `hcl:"limit,optional"`
}

// Load reads the file of a control role. The error names every mistake with its place.
func Load(path string) ([]Provisioner, error) {
	src, err := osutil.ReadGivenFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return parse(path, src)
}

// parse reads such a file from memory.
func parse(name string, src []byte) ([]Provisioner, error) {
	if len(src) > maxFile {
		return nil, fmt.Errorf("hosts: %s has %d bytes; it may have %d", name, len(src), maxFile)
	}
	var in provisionerFile
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if !diags.HasErrors() {
		diags = append(diags, gohcl.DecodeBody(file.Body, nil, &in)...)
	}
	if diags.HasErrors() {
		var all []error
		for _, d := range diags {
			all = append(all, d)
		}
		return nil, errors.Join(all...)
	}
	var all []Provisioner
	var wrong []error
	for i := range in.Provisioners {
		b := &in.Provisioners[i]
		p, err := b.provisioner()
		if slices.ContainsFunc(all, func(other Provisioner) bool { return other.Hardware == p.Hardware }) {
			err = errors.Join(err, b.errorf("hardware %q has a provisioner already; put all into one", b.Hardware))
		}
		all, wrong = append(all, p), append(wrong, err)
	}
	if len(all) == 0 {
		wrong = append(wrong, fmt.Errorf("%s: it declares no provisioner; write one, or leave out --provision", name))
	}
	return all, errors.Join(wrong...)
}

func (b *provisionerBlock) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d,%d: "+format, append([]any{b.At.Filename, b.At.Start.Line, b.At.Start.Column}, args...)...)
}

// provisioner reports what is wrong with the block, all of it.
func (b *provisionerBlock) provisioner() (p Provisioner, err error) {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, b.errorf(format, args...)) }
	duration := func(name, written string, otherwise time.Duration) time.Duration {
		if written == "" {
			return otherwise
		}
		d, err := time.ParseDuration(written)
		if err != nil || d <= 0 {
			refuse("%s is %q; write a duration above zero, such as \"90s\"", name, written)
		}
		return d
	}
	p = Provisioner{Hardware: b.Hardware, Min: b.Min, Max: b.Max, Devices: b.Devices, External: b.External}
	p.Idle, p.Join = duration("idle", b.Idle, DefaultIdle), duration("join", b.Join, DefaultJoin)
	if !pipelines.IsName(b.Hardware) {
		refuse("%q cannot name a kind of hardware: use letters, digits, dots, hyphens and underscores, and start with a letter or digit", b.Hardware)
	}
	switch {
	case b.Max < 1 || b.Max > maxCount:
		refuse("max is %d; allow at least one host, and at most %d", b.Max, maxCount)
	case b.Min < 0 || b.Min > b.Max:
		refuse("min is %d and max is %d; min is between 0 and max", b.Min, b.Max)
	}
	if b.Devices < 1 || b.Devices > maxCount {
		refuse("devices is %d; it is how many a host offers, at least one", b.Devices)
	}
	switch c := b.Commands; {
	case b.Process != nil:
		refuse("there is no process block any more: write commands { create = [\"examples/cluster/worker.sh\", \"create\"], delete = [\"examples/cluster/worker.sh\", \"delete\"] }, with the flags of harpagon worker behind \"create\"; that script starts workers on this machine")
	case b.External:
		if c != nil || b.Min != 0 || b.Idle != "" || b.Join != "" {
			refuse("external leaves making and ending hosts to others: leave out commands, min, idle and join, or external")
		}
	case c == nil:
		refuse("how hosts are created and ended is missing: add a block commands, or external = true where others do it")
	default:
		p.Commands = Commands{Create: c.Create, Delete: c.Delete, Limit: duration("limit", c.Limit, DefaultLimit)}
		if len(c.Create) == 0 || len(c.Delete) == 0 || c.Create[0] == "" || c.Delete[0] == "" {
			refuse("create and delete each name a program, and perhaps arguments: [\"/usr/local/bin/make-host\"]")
		}
	}
	return p, errors.Join(wrong...)
}

// Driver makes and ends hosts of one kind. Its methods may be called for several hosts at
// a time, and for one host one after the other.
type Driver interface {
	// Create makes the host. It returns as soon as the host may join the fleet by itself. A
	// host that it could not make stays in List until it is deleted.
	Create(ctx context.Context, name string) error

	// Delete ends the host and forgets it; one that is not there is deleted. A host that it
	// could not end stays in List.
	Delete(ctx context.Context, name string) error

	// List is what was made and is not deleted, sorted by name.
	List() ([]HostRecord, error)
}

// HostRecord is a host as its driver remembers it.
type HostRecord struct {
	Name  string
	Since time.Time // it was begun
	Ended string    // why it lives no more, or never did; empty where it may live
	Going bool      // to delete it has begun
}
