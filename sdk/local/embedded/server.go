//go:build !noserver

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

// Server is a Temporal server that runs in this process.
type Server struct {
	temporal temporal.Server
	ui       *ui
	address  string
}

// readyTimeout bounds the wait for the server's first answer.
const readyTimeout = time.Minute

// Start starts a server and returns when it answers. ctx bounds the start
// only. An error says which port is in use, or what is wrong with the file.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.DBFile == "" {
		return nil, errors.New("embedded: Options.DBFile is empty; name the file that shall hold the state")
	}
	frontend, err := choose(o.FrontendAddr)
	if err != nil {
		return nil, fmt.Errorf("embedded: Temporal: %w", err)
	}
	uiAt := address{}
	if !o.WithoutUI {
		if uiAt, err = choose(o.UIAddr); err != nil {
			return nil, fmt.Errorf("embedded: Temporal UI: %w", err)
		}
	}
	c, err := configure(o.DBFile, frontend)
	if err != nil {
		return nil, err
	}
	if err := prepare(c, o); err != nil {
		return nil, err
	}
	s := &Server{address: frontend.String()}
	if err := s.start(ctx, c, logger(o.LogFile)); err != nil {
		return nil, err
	}
	if !o.WithoutUI {
		s.ui = startUI(uiAt, s.address)
	}
	return s, nil
}

// prepare creates the file with its tables, and the namespace, where they do
// not exist yet. A file appears only when it is complete, so that a process
// killed here leaves nothing half made.
func prepare(c *config.Config, o Options) error {
	store := c.Persistence.DataStores[storeName].SQL
	if _, err := os.Stat(o.DBFile); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(o.DBFile), 0o755); err != nil {
			return fmt.Errorf("embedded: creating the folder of the state: %w", err)
		}
		fresh := *store
		fresh.DatabaseName = o.DBFile + ".new"
		fresh.ConnectAttributes = map[string]string{"mode": "rwc"} // without a log, the one file is all
		_ = os.Remove(fresh.DatabaseName)
		if err := sqlite.SetupSchema(&fresh); err != nil {
			return fmt.Errorf("embedded: creating %s: %w", o.DBFile, err)
		}
		if err := os.Rename(fresh.DatabaseName, o.DBFile); err != nil {
			return fmt.Errorf("embedded: creating %s: %w", o.DBFile, err)
		}
	}
	namespace, err := sqlite.NewNamespaceConfig(clusterName, Namespace, false, o.SearchAttributes)
	if err != nil {
		return fmt.Errorf("embedded: search attributes: %w", err)
	}
	if err := sqlite.CreateNamespaces(store, namespace); err != nil {
		return fmt.Errorf("embedded: %s cannot be used (is it damaged, or of another version?); remove it to begin anew: %w", o.DBFile, err)
	}
	return nil
}

func (s *Server) start(ctx context.Context, c *config.Config, l log.Logger) (err error) {
	s.temporal, err = temporal.NewServer(
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(l),
		temporal.WithStaticHosts(hosts(c)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			// One process needs no partitions, and is quicker without.
			dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
			dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		}),
	)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("embedded: starting the Temporal server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := ready(ctx, s.address); err != nil {
		_ = s.temporal.Stop()
		return fmt.Errorf("embedded: the Temporal server does not answer: %w", err)
	}
	return nil
}

// ready waits until clients can work with the namespace.
func ready(ctx context.Context, address string) error {
	for {
		c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: Namespace, Logger: silent{}})
		if err == nil {
			c.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Address is where Temporal clients connect to, HOST:PORT.
func (s *Server) Address() string { return s.address }

// UIURL is where people look; empty without UI.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Stop stops the UI and the server, which writes all that it holds. Stop its
// clients and workers first.
func (s *Server) Stop() error {
	if s.ui != nil {
		s.ui.stop()
	}
	if err := s.temporal.Stop(); err != nil {
		return fmt.Errorf("embedded: stopping the Temporal server: %w", err)
	}
	return nil
}

// silent is a logger for clients whose failures are expected.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

func logger(file string) log.Logger {
	if file == "" {
		return log.NewNoopLogger()
	}
	return log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "warn", OutputFile: file, Format: "console"}))
}
