package system

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
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

	Cores     int                // of this machine to offer; 0 means all
	GPUs      bool               // offer its NVIDIA GPUs, too
	Functions *steps.Registry    // processing steps; nil means the built-in ones
	Plan      pipelines.Planning // goes before the plan blocks of what is declared
	MaxShare  float64            // of a device's time to plan with; 0 means placement.DefaultMaxShare
	Fixed     bool               // do not plan anew when the load drifts
	Record    string             // file for a recording of the gateway's decisions; see roles.GatewayOptions

	// Credentials are what the gateway and the store ask of their callers.
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

	// Progress is told in words what happens; may be nil. It is called from
	// several goroutines, one at a time.
	Progress func(string)

	ReadyTimeout time.Duration // until all services serve; 0 means DefaultReadyTimeout

	// Temporal starts a server when the environment does not name one with
	// TEMPORAL_ADDRESS.
	Temporal func(context.Context, TemporalOptions) (Temporal, error)
}

// declares says whether there is anything to apply.
func (o *Options) declares() bool { return len(o.Files) > 0 || o.Document != nil }

// TemporalOptions say what kind of server a system wants.
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
