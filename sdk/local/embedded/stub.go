//go:build noserver

package embedded

import "context"

// LeftOut reports whether this program was built without the Temporal server.
const LeftOut = true

// Server is never made in programs without the Temporal server.
type Server struct{}

// Start returns ErrLeftOut.
func Start(context.Context, Options) (*Server, error) { return nil, ErrLeftOut }

// Address is empty.
func (*Server) Address() string { return "" }

// UIURL is empty.
func (*Server) UIURL() string { return "" }

// Stop does nothing.
func (*Server) Stop() error { return nil }
