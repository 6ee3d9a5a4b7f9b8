//go:build !noserver

package embedded

import (
	"fmt"
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

// choose finds a free port where none is given, and checks that a given one is
// free. The server opens its ports itself, so they are only tried here.
func choose(at string) (address, error) {
	if at == "" {
		at = loopback + ":0"
	}
	l, err := listen.TCP(at, secure.Credentials{})
	if err != nil {
		return address{}, err
	}
	defer l.Close()
	tcp := l.Addr().(*net.TCPAddr)
	return address{host: tcp.IP.String(), port: tcp.Port}, nil
}

// configure describes a server of one process.
func configure(file string, frontend address) (*config.Config, error) {
	services := map[string]config.Service{}
	for _, name := range []string{"frontend", "history", "matching", "worker"} {
		at := frontend
		if name != "frontend" {
			var err error
			if at, err = choose(""); err != nil {
				return nil, fmt.Errorf("embedded: %w", err)
			}
		}
		services[name] = config.Service{RPC: config.RPC{GRPCPort: at.port, BindOnIP: at.host}}
	}
	c := &config.Config{
		Services: services,
		Persistence: config.Persistence{
			DefaultStore: storeName, VisibilityStore: storeName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{storeName: {SQL: store(file)}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend.String()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend.String()},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	c.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}
	return c, nil
}

// hosts tells the services of one process where they are. Left to find each
// other by gossip, they would wait after a restart for the ones of the process
// before, which the file still remembers.
func hosts(c *config.Config) map[primitives.ServiceName]static.Hosts {
	all := map[primitives.ServiceName]static.Hosts{}
	for name, s := range c.Services {
		at := address{host: s.RPC.BindOnIP, port: s.RPC.GRPCPort}.String()
		all[primitives.ServiceName(name)] = static.Hosts{All: []string{at}, Self: at}
	}
	return all
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
