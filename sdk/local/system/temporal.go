package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/wire/secure"
)

// addressVariable is how Temporal's own tools are pointed at a server.
const addressVariable = "TEMPORAL_ADDRESS"

// helloWithin is how long a server that has just started may take to report its
// capabilities. Ours has answered already, but not with everything beside it that starts
// next.
const helloWithin = 30 * time.Second

// connection is a client, with the server when that is the system's own.
type connection struct {
	client    client.Client
	address   string
	namespace string
	server    Temporal // nil when it is elsewhere
	log       io.Closer
	logger    *slog.Logger // to log
}

// connect dials the server that the environment names, or starts one.
func connect(ctx context.Context, o Options, f Folder) (c *connection, err error) {
	file, err := osutil.OpenLog(f.log("harpagon"))
	if err != nil {
		return nil, fmt.Errorf("harpagon: %w", err)
	}
	c = &connection{log: file}
	defer func() {
		if err != nil {
			_ = c.close()
		}
	}()
	options := client.Options{Namespace: client.DefaultNamespace}
	if External(o.Environ) {
		if options, err = FromEnvironment(o.Credentials); err != nil {
			return c, err
		}
	} else {
		if o.Temporal == nil {
			return c, errors.New("harpagon: built without the embedded Temporal server; set TEMPORAL_ADDRESS to one")
		}
		c.server, err = o.Temporal(ctx, TemporalOptions{
			DBFile: f.database(), LogFile: f.log("temporal"), UIAddr: o.UIAddr, WithoutUI: o.WithoutUI,
			SearchAttributes: roles.SearchAttributes(),
		})
		if err != nil {
			return c, err
		}
		options.HostPort = c.server.Address()
		options.ConnectionOptions.GetSystemInfoTimeout = helloWithin
		options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{} // nothing leaves the machine
	}
	c.logger = slog.New(slog.NewTextHandler(file, nil))
	options.Logger = sdklog.NewStructuredLogger(c.logger)
	options.Identity = "harpagon up"
	c.address, c.namespace = options.HostPort, options.Namespace
	if c.client, err = client.DialContext(ctx, options); err != nil {
		return c, fmt.Errorf("harpagon: no Temporal server answers at %s: %w", options.HostPort, err)
	}
	if c.server == nil {
		return c, roles.EnsureSearchAttributes(ctx, c.client, c.namespace)
	}
	return c, nil
}

// External reports that the environment names a Temporal server.
func External(environ []string) bool {
	for _, e := range environ {
		if address, ok := strings.CutPrefix(e, addressVariable+"="); ok && address != "" {
			return true
		}
	}
	return false
}

// FromEnvironment reads the TEMPORAL_* settings. TEMPORAL_ADDRESS may list several
// servers of one cluster, separated by commas. Where the settings require TLS and name no
// certificates (TEMPORAL_TLS=true), those of the process are used.
func FromEnvironment(c secure.Credentials) (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf("harpagon: the TEMPORAL_* settings: %w", err)
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	addresses := strings.Split(options.HostPort, ",")
	servers := resolver.State{}
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil && (len(addresses) > 1 || options.ConnectionOptions.TLS != nil) {
			return options, fmt.Errorf("harpagon: TEMPORAL_ADDRESS=%s: %q is not HOST:PORT: %w", options.HostPort, address, err)
		}
		servers.Addresses = append(servers.Addresses, resolver.Address{Addr: address, ServerName: host})
	}
	if over := options.ConnectionOptions.TLS; over != nil && c.Identity != nil && len(over.Certificates) == 0 && over.RootCAs == nil {
		options.ConnectionOptions.TLS = c.Identity.Client(over.ServerName) // without one it is the host that is dialled
	}
	if len(addresses) > 1 {
		cluster := manual.NewBuilderWithScheme("cluster")
		cluster.InitialState(servers)
		options.HostPort = "cluster:///" + options.HostPort
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithResolvers(cluster))
	}
	return options, nil
}

func (c *connection) close() error {
	var err error
	if c.client != nil {
		c.client.Close()
	}
	if c.server != nil {
		err = c.server.Stop()
	}
	return errors.Join(err, c.log.Close())
}

func (c *connection) uiURL() string {
	if c.server == nil {
		return ""
	}
	return c.server.UIURL()
}
