package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/queue"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// DispatcherOptions describes a dispatcher.
type DispatcherOptions struct {
	Addr        string             // HOST:PORT for gateways; executors come to the port after it
	Name        string             // of the process
	Credentials secure.Credentials // asked of gateways and executors
	Log         func(string)       // is told of connections that failed; may be nil
	Record      string             // as of GatewayOptions
	Keepalive   time.Duration      // how long gateways and executors may be silent; 0 means keepalive.DefaultPatience

	// Connections is how many each of the two ports keeps open; 0 means
	// listen.Connections.
	Connections int

	// Advertise is the address at which gateways reach Addr, and executors at the port
	// after it; empty means Addr itself.
	Advertise string

	// Client is of the Temporal server whose fleet the dispatcher joins, which grants
	// it services. Without, it claims all.
	Client client.Client
}

// Dispatcher is the role that decides when and where the items of gateways run.
type Dispatcher struct {
	Server *server.Server
	Addr   string // HOST:PORT for gateways

	lease   *lease // nil where no fleet grants services
	quit    context.CancelFunc
	servers sync.WaitGroup
}

// StartDispatcher starts the role, and joins the fleet if there is a Client; ctx bounds
// the start only.
func StartDispatcher(ctx context.Context, o DispatcherOptions) (*Dispatcher, error) {
	if err := checkRecord(o.Record); err != nil {
		return nil, err
	}
	gateways, err := listen.Frames(o.Addr, o.Credentials, o.Connections, queue.Refusal(listen.Beyond))
	if err != nil {
		return nil, err
	}
	next, err := executorsPort(gateways.Addr().String())
	if err != nil {
		_ = gateways.Close()
		return nil, err
	}
	executors, err := listen.Frames(next, o.Credentials, o.Connections, attach.Refusal(listen.Beyond))
	if err != nil {
		_ = gateways.Close()
		return nil, fmt.Errorf("roles: dispatcher: executors come to the port after that of gateways: %w", err)
	}
	address := gateways.Addr().String()
	if gateways, err = listen.TLS(stream.Listener(gateways), o.Credentials.Identity); err != nil {
		_ = executors.Close()
		return nil, err
	}
	began := time.Now()
	memory := gateway.DefaultRecord
	if o.Record != "" {
		memory = recordMemory
	}
	queues := dispatcher.New(dispatcher.Options{
		Now: func() time.Duration { return time.Since(began) + 1 }, Margin: gateway.DefaultMargin,
		Span: gateway.DefaultSpan, FunctionSpan: gateway.DefaultFunctionSpan, Record: memory,
	})
	life, quit := context.WithCancel(context.Background())
	settings := server.Options{Name: o.Name, Callers: o.Credentials.Guard(), Patience: o.Keepalive}
	d := &Dispatcher{Addr: cmp.Or(o.Advertise, address), quit: quit}
	if o.Client != nil {
		d.lease = newLease()
		settings.Orphaned = d.lease.claimOrphan
	}
	if d.Server = server.New(queues, settings); o.Client == nil {
		d.Server.Claim()
	} else {
		d.lease.server = d.Server
	}
	d.servers.Go(func() {
		_ = listen.Each(life, gateways, func(c net.Conn) {
			d.servers.Go(func() { d.serve(life, c, o.Log) })
		})
	})
	d.servers.Go(func() {
		newRecorder(o.Record, o.Log, func() recording.Recording {
			head := recording.Head{Program: "harpagon dispatcher", Written: time.Now(), Epoch: began}
			return recording.Recording{Head: head, Stations: queues.Recording()}
		}).keep(life)
	})
	d.servers.Go(func() {
		_ = attach.Serve(life, executors, attach.TCPOptions{Credentials: o.Credentials, Keepalive: o.Keepalive}, d.Server.Attach)
	})
	if o.Client == nil {
		return d, nil
	}
	toExecutors, err := executorsPort(d.Addr)
	if err == nil {
		err = d.join(ctx, life, o.Client, o, toExecutors)
	}
	if err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// serve serves the connection of a gateway, until life ends.
func (d *Dispatcher) serve(life context.Context, c net.Conn, tell func(string)) {
	stop := context.AfterFunc(life, func() { _ = c.Close() })
	defer stop()
	if err := d.Server.Serve(c); err != nil && tell != nil && life.Err() == nil {
		tell(fmt.Sprintf("dispatcher: a gateway at %s: %v", c.RemoteAddr(), err))
	}
}

// Stop ends the role. Gateways go on with another dispatcher.
func (d *Dispatcher) Stop() {
	d.quit()
	d.servers.Wait()
}

// executorsPort is the address at which executors reach a dispatcher.
func executorsPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	n := 0
	if err == nil {
		n, err = strconv.Atoi(port)
	}
	if err != nil || n < 1 || n > 65534 {
		return "", fmt.Errorf("harpagon: the address of a dispatcher is HOST:PORT, for example 127.0.0.1:8094, not %q", address)
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1)), nil
}

// withDispatchers are the addresses that executors attach to.
func withDispatchers(gateway string, dispatchers []string) string {
	all := []string{gateway}
	for _, address := range dispatchers {
		if address == OfFleet {
			continue // workers learn those from the fleet, too
		}
		if next, err := executorsPort(address); err == nil {
			all = append(all, next)
		}
	}
	return strings.Join(all, ",")
}

// RunDispatcher runs the role until ctx ends.
func RunDispatcher(ctx context.Context, o DispatcherOptions, started func(*Dispatcher)) error {
	if o.Name == "" {
		return errors.New("roles: a dispatcher needs a name; set DispatcherOptions.Name")
	}
	d, err := StartDispatcher(ctx, o)
	if err != nil {
		return err
	}
	started(d)
	var replaced chan struct{}
	if d.lease != nil {
		replaced = d.lease.replaced
	}
	select {
	case <-ctx.Done():
	case <-replaced:
		err = errReplaced
	}
	d.Stop()
	return err
}
