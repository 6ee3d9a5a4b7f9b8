package embedded

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
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
	DBFile       string // SQLite file, created when it does not exist; required
	FrontendAddr string // for Temporal clients
	UIAddr       string // for browsers
	WithoutUI    bool
	LogFile      string // warnings and errors are appended to it; empty discards them

	// SearchAttributes are registered when the file is created.
	SearchAttributes map[string]enumspb.IndexedValueType
}
