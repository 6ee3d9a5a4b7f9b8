package local

import (
	"context"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk/local/apart"
	"github.com/harpagon/harpagon/sdk/local/embedded"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// System is a running Harpagon; Close stops it.
type System = system.System

// Options of a system. Temporal is Apart where it is nil.
type Options = system.Options

// DeclarationError reports what is wrong with a declaration.
type DeclarationError = system.DeclarationError

// ChildMain must be called first in main; see system.ChildMain. In a process that Apart
// started it serves Temporal and does not return.
func ChildMain() {
	apart.Serve()
	system.ChildMain()
}

// Up starts a system that serves the pipelines of the files, on the state
// folder .harpagon, and returns when they serve.
func Up(ctx context.Context, files ...string) (*System, error) {
	return Start(ctx, Options{Files: files})
}

// Serve is Up for a declaration made in Go, with files beside it where given.
func Serve(ctx context.Context, doc pipelines.Document, files ...string) (*System, error) {
	return Start(ctx, Options{Document: &doc, Files: files})
}

// Start starts a system and returns when its pipelines serve.
func Start(ctx context.Context, o Options) (*System, error) {
	if o.Temporal == nil {
		o.Temporal = Apart
	}
	return system.Start(ctx, o)
}

// Temporal starts the embedded server in this process.
func Temporal(ctx context.Context, o system.TemporalOptions) (system.Temporal, error) {
	s, err := embedded.Start(ctx, options(o))
	if err != nil {
		return nil, err // not a nil *embedded.Server in an interface
	}
	return s, nil
}

// Apart starts the embedded server in a process of its own, so that requests do not wait for
// what Temporal does; see package apart. The main of the program calls ChildMain first.
func Apart(ctx context.Context, o system.TemporalOptions) (system.Temporal, error) {
	s, err := apart.Start(ctx, options(o))
	if err != nil {
		return nil, err
	}
	return s, nil
}

func options(o system.TemporalOptions) embedded.Options {
	return embedded.Options{
		DBFile: o.DBFile, FrontendAddr: o.Addr, LogFile: o.LogFile, UIAddr: o.UIAddr, WithoutUI: o.WithoutUI, SearchAttributes: o.SearchAttributes,
		Postgres: embedded.Postgres(o.Postgres), TLS: o.TLS,
	}
}
