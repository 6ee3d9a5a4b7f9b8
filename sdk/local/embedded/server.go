//go:build !noserver

package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// LeftOut reports whether this program was built without the Temporal server.
const LeftOut = false

// Server is a Temporal server that runs in this process.
type Server struct {
	temporal temporal.Server
	ui       *webUI
	address  string
}

// readyTimeout bounds the wait for the server's first answer.
const readyTimeout = time.Minute

// Start starts a server and returns when it answers. ctx bounds the start
// only. The error names a port in use, or the fault of the file or the database.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.DBFile == "" && o.Postgres.URL == "" {
		return nil, errors.New("embedded: Options.DBFile is empty; name the file that shall hold the state")
	}
	identity, err := secure.Load(o.TLS)
	if err != nil {
		return nil, err
	}
	chosen := &ports{}
	defer chosen.release()
	frontend, err := chosen.choose(o.FrontendAddr, secure.Credentials{Identity: identity})
	if err != nil {
		return nil, fmt.Errorf("embedded: Temporal: %w", err)
	}
	var people net.Listener
	if !o.WithoutUI {
		if people, err = listen.HTTP(cmp.Or(o.UIAddr, loopback+":0"), secure.Credentials{}, 0); err != nil {
			return nil, fmt.Errorf("embedded: Temporal UI: %w", err)
		}
	}
	s, err := serve(ctx, o, identity, frontend, chosen)
	if err == nil && people != nil {
		if s.ui, err = startUI(people, s.address, o.TLS); err != nil {
			_ = s.temporal.Stop()
		}
	}
	if err != nil && people != nil {
		_ = people.Close()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// serve starts a server without its UI.
func serve(ctx context.Context, o Options, identity *secure.Identity, frontend address, chosen *ports) (*Server, error) {
	l := logger(o.LogFile)
	start := open
	if o.Postgres.URL != "" {
		start = join
	}
	c, more, err := start(ctx, o, frontend, chosen, secure.Credentials{Identity: identity}, l)
	if err != nil {
		return nil, err
	}
	s := &Server{address: c.PublicClient.HostPort}
	return s, s.start(ctx, c, identity, l, more...)
}

// open describes a server of one process on a file.
func open(_ context.Context, o Options, frontend address, p *ports, _ secure.Credentials, _ log.Logger) (*config.Config, []temporal.ServerOption, error) {
	c := configure(frontend, frontend.host, file(o.DBFile))
	if err := alone(c, frontend, p); err != nil {
		return nil, nil, fmt.Errorf("embedded: %w", err)
	}
	return c, []temporal.ServerOption{temporal.WithStaticHosts(hosts(c))}, prepare(c, o)
}

// join describes a server of a cluster.
func join(ctx context.Context, o Options, frontend address, p *ports, proof secure.Credentials, l log.Logger) (*config.Config, []temporal.ServerOption, error) {
	public := cmp.Or(o.Postgres.Advertise, frontend.host)
	if ip := net.ParseIP(public); ip == nil || ip.IsUnspecified() {
		return nil, nil, fmt.Errorf("embedded: other servers of the cluster cannot reach this one at %q; give the IP at which they do (--advertise)", public)
	}
	d, err := parsePostgres(o.Postgres, o.TLS.CA)
	if err != nil {
		return nil, nil, err
	}
	c := configure(frontend, public, d.persistence(o.Postgres.Shards))
	if err := together(c, frontend, p, proof); err != nil {
		return nil, nil, fmt.Errorf("embedded: %w", err)
	}
	return c, nil, d.prepare(ctx, l)
}

// prepare creates the file with its tables, and the namespace, where they do
// not exist yet. A file appears only when it is complete, so that a process
// killed here leaves nothing half made.
func prepare(c *config.Config, o Options) error {
	store := c.Persistence.DataStores[storeName].SQL
	if _, err := os.Stat(o.DBFile); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(o.DBFile), 0o700); err != nil {
			return fmt.Errorf("embedded: creating the folder of the state: %w", err)
		}
		fresh := *store
		fresh.DatabaseName = o.DBFile + ".new"
		fresh.ConnectAttributes = map[string]string{"mode": "rwc"} // without a log, the one file is all
		_ = os.Remove(fresh.DatabaseName)
		defer os.Remove(fresh.DatabaseName) // fails once it has been renamed
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
		return fmt.Errorf("embedded: %s cannot be used (is it damaged, or of another version?); remove it to begin again: %w", o.DBFile, err)
	}
	return nil
}

func (s *Server) start(ctx context.Context, c *config.Config, identity *secure.Identity, l log.Logger, more ...temporal.ServerOption) error {
	crypto, err := over(identity)
	if err != nil {
		return err
	}
	settings := settings()
	if crypto != nil {
		settings[dynamicconfig.EnableRingpopTLS.Key()] = true
		more = append(more, temporal.WithTLSConfigFactory(crypto))
	}
	s.temporal, err = temporal.NewServer(append(more,
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(l),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(settings),
	)...)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("embedded: starting the Temporal server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	options := client.Options{HostPort: s.address, Namespace: Namespace, Logger: silent{}}
	if identity != nil {
		options.ConnectionOptions.TLS = identity.Client("")
	}
	if err := ready(ctx, options); err != nil {
		_ = s.temporal.Stop()
		return fmt.Errorf("embedded: the Temporal server does not answer: %w", err)
	}
	return nil
}

// retention is how long histories are kept after their workflows have ended.
const retention = 3 * 24 * time.Hour

// ready waits until clients can work with the namespace, and makes it where it is
// missing.
func ready(ctx context.Context, o client.Options) error {
	for {
		err := usable(ctx, o)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func usable(ctx context.Context, o client.Options) error {
	spaces, err := client.NewNamespaceClient(o)
	if err != nil {
		return err
	}
	defer spaces.Close()
	_, err = spaces.Describe(ctx, o.Namespace)
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		err = spaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: o.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		})
	}
	if err != nil {
		return err
	}
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	// A frontend's cache of namespaces lags behind the database.
	_, err = c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: o.Namespace})
	return err
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
