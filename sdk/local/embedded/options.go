// Package embedded runs a real Temporal server, with its UI, inside the
// program: on one SQLite file, on the loopback interface, without anything to
// install or download.
//
// It is the only package that links go.temporal.io/server, which takes minutes
// to compile the first time and makes a program large. The build tag noserver
// leaves it out: Start then fails with a hint to set TEMPORAL_ADDRESS. Workers and gateways
// that talk to a Temporal server elsewhere are built that way.
package embedded

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/harpagon/harpagon/wire/secure"
)

// Namespace is the one that the server creates.
const Namespace = "default"

// DefaultUIAddr is where Temporal's own development server has its UI too.
const DefaultUIAddr = "127.0.0.1:8233"

// ErrLeftOut is returned by Start in programs built with the tag noserver.
var ErrLeftOut = errors.New("embedded: this program was built without the Temporal server (tag noserver); " +
	"set TEMPORAL_ADDRESS to a Temporal server, or build without the tag")

// Options of a server. An address is HOST:PORT; port 0, or no address at all,
// takes any port that is free.
type Options struct {
	DBFile       string // SQLite file, created when it does not exist; required without Postgres
	FrontendAddr string // for Temporal clients
	UIAddr       string // for browsers
	WithoutUI    bool
	LogFile      string // warnings and errors are appended to it; empty discards them

	// SearchAttributes are registered when the file is created; with Postgres the program
	// that runs workflows registers its own.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Postgres keeps the state in a PostgreSQL database instead of a file, and makes the
	// server one of a cluster: all that are given the same database.
	Postgres Postgres

	// TLS requires certificates of its CA from clients and the other servers of the
	// cluster, and shows its own. The UI stays without.
	TLS secure.Files
}

// Postgres is where a cluster of servers keeps its state. The database and one of the
// same name with _visibility behind it get their tables from the first server.
type Postgres struct {
	URL string // postgres://USER@HOST:PORT/DATABASE?sslmode=...; empty means none

	// Advertise is the IP at which the other servers reach this one: on the port of
	// FrontendAddr and the seven after it. Empty means the one that FrontendAddr has.
	Advertise string

	// Shards divide the histories among servers. The number is fixed when the database
	// is made; 0 means DefaultShards.
	Shards int
}

// DefaultShards are enough for some ten servers, and cost a server little while it is
// the only one.
const DefaultShards = 128
