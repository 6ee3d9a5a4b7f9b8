// Package roles runs the three roles of Harpagon over a Temporal client, one a
// process or all in one:
//
//   - control runs the workflows and the activities that decide;
//   - a worker is a host with devices: it profiles modules and runs executors;
//   - a gateway takes requests, and the streams of executors.
//
// StartControl, StartWorker and StartGateway return at once; the role then runs
// until Stop, which lets it finish what it holds.
package roles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/workflows/control"
)

// RunControl runs the control role until ctx ends.
func RunControl(ctx context.Context, c client.Client, o ProvisionOptions) error {
	r, err := StartControl(ctx, c, o)
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.Stop()
	return nil
}

// RunWorker runs a host until ctx ends, or the fleet has it leave. It then gives the fleet
// notice, and drains the executors that are left when that is over. It also fails when
// another process is in the fleet under the host's name.
func RunWorker(ctx context.Context, c client.Client, o HostOptions) error {
	r, err := StartWorker(ctx, c, o)
	if err != nil {
		return err
	}
	select {
	case <-r.asked: // by the fleet, which waits for as long as services need
		r.leave(ctx)
	case <-ctx.Done():
	case <-r.replaced:
		err = fmt.Errorf("another worker is in the fleet as %q; give each host a name of its own with --name", o.Name)
	}
	if err == nil && ctx.Err() != nil {
		notice, cancel := context.WithTimeout(context.Background(), o.Notice)
		r.leave(notice)
		cancel()
	}
	r.Stop()
	return err
}

// RunGateway runs a gateway until ctx ends. It then reports not to be ready, takes requests
// for the time of notice, and finishes those under way. started is called once it listens;
// it may be nil. It also fails when another process has joined the fleet under the
// gateway's name.
func RunGateway(ctx context.Context, c client.Client, o GatewayOptions, started func(*Gateway)) error {
	r, err := StartGateway(ctx, c, o)
	if err != nil {
		return err
	}
	if started != nil {
		started(r)
	}
	select {
	case <-ctx.Done():
	case <-r.replaced:
		err = fmt.Errorf("another gateway has joined the fleet as %q; give each a name of its own with --name", r.Member.Name)
	}
	r.Leave()
	time.Sleep(o.Notice)
	err = errors.Join(err, r.Stop())
	r.Close()
	return err
}

// How a member of the fleet notices that it is one no more: the fleet offers its
// hold activity again within seconds where it still counts on it. It joins at once where the
// server reports that the fleet does not: a process that was stopped for seconds has gone on.
const (
	lookEvery   = 5 * time.Second
	lostAfter   = 6 // looks without being held
	fencedAfter = 2 // looks, where the server has answered that the fleet does not hold the member
	joinWithin  = 20 * time.Second
)

// errTaken is why a member does not join again: another process is held under its name.
var errTaken = errors.New("roles: another process has the name")

// rejoinLoop joins the fleet again whenever it has lost sight of the member, until life
// ends; it returns true when another process has taken the member's name. While the server
// is away the member does not count as lost.
func rejoinLoop(life context.Context, p *activities.Presence, join func(context.Context) error) (replaced bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for missed := 0; ; {
		over := false
		select {
		case <-tick.C:
		case <-p.Over():
			over = true
		case <-life.Done():
			return false
		}
		if missed++; p.Held() {
			missed, over = 0, false
		}
		if !over && missed < lostAfter && (missed < fencedAfter || !p.Fenced()) {
			continue
		}
		ctx, cancel := context.WithTimeout(life, joinWithin)
		err := join(ctx)
		cancel()
		if errors.Is(err, errTaken) {
			return true
		}
		if err == nil {
			missed = 0
		}
	}
}

// reenter has a member join again, unless another process has its name by now.
func reenter(ctx context.Context, commands *control.Control, m activities.Member) (view activities.FleetView, err error) {
	if view, err = commands.Fleet(ctx); err == nil && view.Taken(m) {
		return view, errTaken
	}
	return commands.Enter(ctx, m)
}

// recordMemory is kept for every module where a recording is configured at the start.
const recordMemory = 16 << 20

// recorder writes the latest events and actions of stations to the file whenever the
// process gets SIGUSR1, and with atEnd when life ends. tell logs that.
type recorder struct {
	path  string
	atEnd bool
	read  func() recording.Recording
	tell  func(string)
}

// newRecorder is for a path that the user has given, or for a file in the folder for
// temporary files where it is empty.
func newRecorder(path string, tell func(string), read func() recording.Recording) recorder {
	r := recorder{path: path, atEnd: path != "", read: read, tell: tell}
	if path == "" {
		r.path = filepath.Join(os.TempDir(), fmt.Sprintf("harpagon-%d.harprec", os.Getpid()))
	}
	if tell == nil {
		r.tell = func(string) {}
	}
	return r
}

func (r recorder) keep(life context.Context) {
	wanted := make(chan os.Signal, 1)
	signal.Notify(wanted, syscall.SIGUSR1)
	defer signal.Stop(wanted)
	for {
		done := false
		select {
		case <-wanted:
		case <-life.Done():
			done = true
		}
		if !done || r.atEnd {
			if err := r.write(); err != nil {
				r.tell(fmt.Sprintf("the recording was not written: %v", err))
			} else {
				r.tell("wrote " + r.path)
			}
		}
		if done {
			return
		}
	}
}

// write replaces the file as a whole.
func (r recorder) write() error {
	text, err := r.read().Append(nil)
	if err != nil {
		return err
	}
	return osutil.ReplaceFile(r.path, text, 0o600)
}

// checkRecord returns an error early when a recording cannot be written to the file.
func checkRecord(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("--record %s: there is no folder %s", path, filepath.Dir(path))
	}
	return nil
}

// StoreOptions describes a store of what modules need; see package content.
type StoreOptions struct {
	Addr        string             // HOST:PORT; port 0 takes any that is free
	Dir         string             // folder that holds it
	Limit       int64              // bytes that it takes; 0 for content.DefaultStoreLimit
	Credentials secure.Credentials // required of workers and of callers of apply
}

// Store is a folder of models that is served to hosts that do not see it.
type Store struct {
	Addr string // HOST:PORT

	secured bool
	quit    context.CancelFunc
	servers sync.WaitGroup
}

// StartStore starts to serve.
func StartStore(o StoreOptions) (*Store, error) {
	l, err := listen.HTTP(o.Addr, o.Credentials, 0)
	if err != nil {
		return nil, err
	}
	life, quit := context.WithCancel(context.Background())
	s := &Store{Addr: l.Addr().String(), quit: quit, secured: o.Credentials.Identity != nil}
	server := listen.Server(listen.Transfers(content.Handler(content.Folder(o.Dir), o.Limit, o.Credentials.Guard())))
	context.AfterFunc(life, func() { _ = server.Close() })
	s.servers.Go(func() { _ = server.Serve(l) })
	return s, nil
}

// URL is where the store is.
func (s *Store) URL() string {
	if s.secured {
		return "https://" + s.Addr
	}
	return "http://" + s.Addr
}

// Stop ends the store; transfers under way break off.
func (s *Store) Stop() {
	s.quit()
	s.servers.Wait()
}
