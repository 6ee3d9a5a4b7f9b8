package roles

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/attach/attachgrpc"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// DispatcherOptions describes a dispatcher.
type DispatcherOptions struct {
	Addr        string             // HOST:PORT for gateways; executors come to the port after it
	Name        string             // of the process
	Credentials secure.Credentials // asked of gateways and executors
	Tell        func(string)       // is told of connections that failed; may be nil
	Keepalive   time.Duration      // how long gateways and executors may be silent; 0 means keepalive.DefaultPatience

	// Leased leaves it to Server.Own which services are decided for; without, it
	// claims all.
	Leased bool
}

// Dispatcher is the role that decides when and where the items of gateways run.
type Dispatcher struct {
	Server *dispatcher.Server
	Addr   string // HOST:PORT for gateways

	quit    context.CancelFunc
	servers sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]bool
}

// StartDispatcher starts the role.
func StartDispatcher(o DispatcherOptions) (*Dispatcher, error) {
	gateways, err := listen.TCP(o.Addr, o.Credentials)
	if err != nil {
		return nil, err
	}
	next, err := executorsPort(gateways.Addr().String())
	if err != nil {
		_ = gateways.Close()
		return nil, err
	}
	executors, err := listen.TCP(next, o.Credentials)
	if err != nil {
		_ = gateways.Close()
		return nil, fmt.Errorf("roles: dispatcher: executors come to the port after that of gateways: %w", err)
	}
	address := gateways.Addr().String()
	if gateways, err = listen.TLS(gateways, o.Credentials.Identity); err != nil {
		_ = executors.Close()
		return nil, err
	}
	began := time.Now()
	queues := dispatcher.New(dispatcher.Options{
		Now: func() time.Duration { return time.Since(began) + 1 }, Margin: gateway.DefaultMargin,
		Span: gateway.DefaultSpan, FunctionSpan: gateway.DefaultFunctionSpan, Record: gateway.DefaultRecord,
	})
	life, quit := context.WithCancel(context.Background())
	d := &Dispatcher{
		Server: dispatcher.NewServer(queues, dispatcher.ServerOptions{Name: o.Name, Token: o.Credentials.Token, Patience: o.Keepalive}), Addr: address, quit: quit, conns: make(map[net.Conn]bool),
	}
	if !o.Leased {
		d.Server.Claim()
	}
	context.AfterFunc(life, func() { _ = gateways.Close() })
	d.servers.Go(func() { d.accept(life, gateways, o.Tell) })
	d.servers.Go(func() {
		_ = attachgrpc.Serve(life, executors, attachgrpc.Options{Credentials: o.Credentials, Keepalive: o.Keepalive}, d.Server.Attach)
	})
	return d, nil
}

func (d *Dispatcher) accept(life context.Context, l net.Listener, tell func(string)) {
	for {
		c, err := l.Accept()
		if err != nil {
			if life.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of file descriptors, most likely
			continue
		}
		d.mu.Lock()
		d.conns[c] = true
		d.mu.Unlock()
		d.servers.Go(func() {
			if err := d.Server.Serve(c); err != nil && tell != nil && life.Err() == nil {
				tell(fmt.Sprintf("dispatcher: a gateway at %s: %v", c.RemoteAddr(), err))
			}
			d.mu.Lock()
			delete(d.conns, c)
			d.mu.Unlock()
		})
	}
}

// Stop ends the role. Gateways go on with another dispatcher.
func (d *Dispatcher) Stop() {
	d.quit()
	d.mu.Lock()
	for c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
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
		if next, err := executorsPort(address); err == nil {
			all = append(all, next)
		}
	}
	return strings.Join(all, ",")
}

// How a gateway comes to its dispatchers again.
const (
	followTimeout = 2 * time.Second
	followEvery   = 50 * time.Millisecond
)

// follow keeps a gateway joined to a dispatcher until life ends. What goes wrong is
// told when it is new.
func follow(life context.Context, g *gateway.Gateway, address, name string, c secure.Credentials, patience time.Duration, tell func(string)) {
	said := ""
	for life.Err() == nil {
		conn, err := dialDispatcher(life, address, c)
		if err == nil {
			said = ""
			unlink := context.AfterFunc(life, func() { _ = conn.Close() })
			err = g.Follow(conn, name, c.Token, patience)
			unlink()
		}
		if err != nil && life.Err() == nil && err.Error() != said {
			said = err.Error()
			tell(fmt.Sprintf("gateway: the dispatcher at %s: %v", address, err))
		}
		select {
		case <-time.After(followEvery):
		case <-life.Done():
		}
	}
}

func dialDispatcher(ctx context.Context, address string, c secure.Credentials) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := c.MaySend(host, c.Identity != nil); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: followTimeout}
	if c.Identity == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: c.Identity.Client(host)}).DialContext(ctx, "tcp", address)
}

// RunDispatcher runs the role until ctx ends.
func RunDispatcher(ctx context.Context, o DispatcherOptions, started func(*Dispatcher)) error {
	if o.Name == "" {
		return errors.New("roles: a dispatcher needs a name; set DispatcherOptions.Name")
	}
	d, err := StartDispatcher(o)
	if err != nil {
		return err
	}
	started(d)
	<-ctx.Done()
	d.Stop()
	return nil
}
