//go:build !noserver

package embedded

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

const (
	storeName   = sqlite.PluginName
	clusterName = "active"
	loopback    = "127.0.0.1"
)

// address is a host and a port that was free when it was chosen.
type address struct {
	host string
	port int
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// ports are those of a server, which opens them itself. Others are not given them meanwhile:
// two servers that start at once have different ones.
type ports struct{ reserved []func() }

// choose finds a free port where none is given, and checks that a given one is free.
func (p *ports) choose(at string, c secure.Credentials) (address, error) {
	if at == "" {
		at = loopback + ":0"
	}
	tcp, release, err := listen.Reserve(at, c)
	if err != nil {
		return address{}, err
	}
	p.reserved = append(p.reserved, release)
	return address{host: tcp.IP.String(), port: tcp.Port}, nil
}

// release is for when the server has opened them, or never will.
func (p *ports) release() {
	for _, release := range p.reserved {
		release()
	}
}

// configure describes a server that keeps its state in stores.
func configure(frontend address, public string, stores config.Persistence) *config.Config {
	c := &config.Config{
		Services:    map[string]config.Service{},
		Persistence: stores,
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address{public, frontend.port}.String()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: address{public, frontend.port}.String()},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	c.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: public}
	return c
}

// services of a server, the one that clients see first.
var services = []primitives.ServiceName{
	primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
}

// alone gives every service a port that is free, for a server of one process.
func alone(c *config.Config, frontend address, p *ports) error {
	for i, name := range services {
		at := frontend
		if i > 0 {
			var err error
			if at, err = p.choose("", secure.Credentials{}); err != nil {
				return err
			}
		}
		c.Services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: at.port, BindOnIP: at.host}}
	}
	return nil
}

// together gives the services of a server of a cluster the ports that follow the one for
// clients, so that the cluster's other servers find them there after a restart, and a
// firewall can allow them: each service has one for calls and one for gossip.
func together(c *config.Config, frontend address, p *ports, proof secure.Credentials) error {
	if last := 2*len(services) - 1; frontend.port > math.MaxInt16-last {
		return fmt.Errorf("port %d is too high for a server of a cluster, whose tables hold ports up to %d, the seven after it among them; give it one of at most %d",
			frontend.port, math.MaxInt16, math.MaxInt16-last)
	}
	for i, name := range services {
		rpc := config.RPC{GRPCPort: frontend.port + 2*i, MembershipPort: frontend.port + 2*i + 1, BindOnIP: frontend.host}
		for _, port := range []int{rpc.GRPCPort, rpc.MembershipPort} {
			if _, err := p.choose(address{frontend.host, port}.String(), proof); err != nil {
				return fmt.Errorf("a server of a cluster takes the port for clients and the seven after it: %w", err)
			}
		}
		c.Services[string(name)] = config.Service{RPC: rpc}
	}
	return nil
}

// hosts is a static list of the services of one process. If they found each other by
// gossip, they would wait after a restart for those of the former process, which the
// database still lists.
func hosts(c *config.Config) map[primitives.ServiceName]static.Hosts {
	all := map[primitives.ServiceName]static.Hosts{}
	for name, s := range c.Services {
		at := address{host: s.RPC.BindOnIP, port: s.RPC.GRPCPort}.String()
		all[primitives.ServiceName(name)] = static.Hosts{All: []string{at}, Self: at}
	}
	return all
}

// file keeps all in one SQLite file.
func file(path string) config.Persistence {
	return config.Persistence{
		DefaultStore: storeName, VisibilityStore: storeName, NumHistoryShards: 1,
		DataStores: map[string]config.DataStore{storeName: {SQL: store(path)}},
	}
}

// store is the SQLite file. With a write-ahead log, a killed process loses
// nothing that the server has acknowledged, and commits do not wait for the
// disk.
func store(file string) *config.SQL {
	return &config.SQL{
		PluginName:   storeName,
		DatabaseName: file,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "normal",
			"busy_timeout": "10000",
		},
	}
}
