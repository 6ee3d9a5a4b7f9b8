package system

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/wire/secure"
)

// Defaults of Options.
const (
	DefaultStateDir     = ".harpagon"
	DefaultReadyTimeout = 10 * time.Minute
	anyPort             = "127.0.0.1:0"
)

// Options of a system.
type Options struct {
	Files    []string          // HCL files and folders to apply
	Vars     map[string]string // for their variables
	VarFiles []string
	Environ  []string // as os.Environ gives it: variables, and where Temporal is; nil means os.Environ()

	// Document is a declaration made in Go, applied together with Files: either may
	// refer to hardware and providers of the other. With neither, the system goes
	// on with what the state folder has.
	Document *pipelines.Document

	StateDir string // empty means DefaultStateDir
	HTTPAddr string // for requests over HTTP; empty takes a port that is free
	GRPCAddr string // for requests over gRPC; empty takes a port that is free
	UIAddr   string // for Temporal's UI; empty takes a port that is free

	// WithoutUI leaves Temporal's UI out.
	WithoutUI bool

	// Engine is used for every module, whatever is declared: "emulated" runs
	// on devices that are only declared. Empty means none.
	Engine string

	// Engines and Policies are the program's own, beside those of this project: declarations
	// name them by Engine.Name, and by the names of the policies, which have a slash.
	Engines  []executors.Engine
	Policies scheduler.Policies

	Cores     int                // of this machine to offer; 0 means all
	GPUs      bool               // offer its NVIDIA GPUs, too
	MPS       bool               // with NVIDIA's Multi-Process Service; see devices.StartMPS
	Functions *steps.Registry    // processing steps; nil means the built-in ones
	Plan      pipelines.Planning // overrides the plan blocks of what is declared
	MaxShare  float64            // of a device's time to plan with; 0 means placement.DefaultMaxShare
	Fixed     bool               // do not plan again when the load drifts
	Record    string             // file for a recording of the gateway's decisions; see roles.GatewayOptions

	// Credentials are what the gateway and the store require of their callers.
	Credentials secure.Credentials

	// Limits bound what callers can make the gateway hold.
	Limits roles.Limits

	// Fetch gets models that are declared by address. CacheSize is how many bytes of
	// models the state folder keeps; 0 means content.DefaultLimit. Where StoreAddr
	// is set, hosts elsewhere take models from there, and apply sends them.
	Fetch     content.Fetcher
	CacheSize int64
	StoreAddr string

	// Attach is the address at which executors of new services reach the
	// gateway. Empty is right where both share this process.
	Attach string

	// Command starts the program that runs networks in a child process: one
	// that calls ChildMain first. Empty means this program, which then must.
	Command []string

	// Progress receives a line for each step; may be nil. It is called from several
	// goroutines, one at a time.
	Progress func(string)

	ReadyTimeout time.Duration // until all services serve; 0 means DefaultReadyTimeout

	// Temporal starts a server when the environment does not name one with
	// TEMPORAL_ADDRESS.
	Temporal func(context.Context, TemporalOptions) (Temporal, error)
}

// declares reports whether there is anything to apply.
func (o *Options) declares() bool { return len(o.Files) > 0 || o.Document != nil }

// checkOwn reports what is wrong with the engines and policies that the program brings.
func (o *Options) checkOwn() error {
	for i, e := range o.Engines {
		_, known := pipelines.EngineNamed(e.Name())
		if known || e.Name() == "" || e.Name() == pipelines.EngineAuto || slices.ContainsFunc(o.Engines[:i], func(other executors.Engine) bool { return other.Name() == e.Name() }) {
			return fmt.Errorf("harpagon: Options.Engines: there is an engine %q already; give this one a name of its own", e.Name())
		}
	}
	if err := o.Policies.Check(); err != nil {
		return fmt.Errorf("harpagon: Options.Policies: %w", err)
	}
	return nil
}

// TemporalOptions of a system's Temporal server.
type TemporalOptions struct {
	DBFile           string
	LogFile          string
	Addr             string // for clients; empty takes a port that is free
	UIAddr           string
	WithoutUI        bool
	SearchAttributes map[string]enumspb.IndexedValueType

	Postgres Postgres     // instead of DBFile
	TLS      secure.Files // for clients and the other servers of a cluster; none means without
}

// Postgres is where the servers of a cluster keep their state; see embedded.Postgres.
type Postgres struct {
	URL       string
	Advertise string
	Shards    int
}

// Temporal is a server that belongs to the system.
type Temporal interface {
	Address() string
	UIURL() string
	Stop() error
}

// DeclarationError reports what is wrong with a declaration, with every finding.
type DeclarationError struct {
	Config   *hcl.Config
	Findings hclv2.Diagnostics
}

// Error lists the findings with their places.
func (e *DeclarationError) Error() string {
	var b bytes.Buffer
	fmt.Fprintln(&b, "harpagon: the declaration cannot be used:")
	_ = hcl.WriteDiagnostics(&b, e.Config, e.Findings, false) // a buffer takes everything
	return b.String()
}

// Load reads and checks a declaration; the error is a *DeclarationError.
func Load(o hcl.LoadOptions, signatures pipelines.SignatureFunc, files ...string) (pipelines.Document, error) {
	return load(o, signatures, files, nil, pipelines.Planning{})
}

// load also takes what a program declares, and options that replace those of plan blocks.
func load(o hcl.LoadOptions, signatures pipelines.SignatureFunc, files []string, own *pipelines.Document, by pipelines.Planning) (pipelines.Document, error) {
	config, findings := hcl.NewConfig(), hclv2.Diagnostics(nil)
	if len(files) > 0 || own == nil {
		config, findings = hcl.Load(o, files...)
	}
	if own != nil {
		findings = append(findings, config.Add(*own)...)
	}
	if !findings.HasErrors() {
		findings = append(findings, config.Validate(signatures)...)
	}
	if findings.HasErrors() {
		return config.Document, &DeclarationError{Config: config, Findings: findings}
	}
	if found := config.Document.Override(by); len(found) > 0 {
		return config.Document, fmt.Errorf("harpagon: how to plan: %s", found[0].Detail)
	}
	return config.Document, nil
}
