// Package system puts the roles of Harpagon together in one process, on a state
// folder: it is what package local and the command line run. Options.Temporal starts
// Temporal; package local passes the embedded server, in a process of its own. So programs
// and tests that only connect to a running system do not link that server.
//
// The state folder holds everything that survives: a version, the server's
// database, measured profiles, logs, and, while the system runs, a lock and the
// addresses at which it answers. A system that starts on the folder of another
// that was stopped, or killed, goes on where that one was.
package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// host is the name of the host within the fleet. It stays the same from one
// start to the next, so that executors find their host again.
const host = "local"

// heartbeatTimeout of executors: how long after a kill their places are free
// for the next process.
const heartbeatTimeout = 6 * time.Second

// prepareTimeout of new executors. It also bounds how long a change waits in
// vain for an executor that ended while the system was down.
const prepareTimeout = time.Minute

// System is a running Harpagon.
type System struct {
	GatewayURL      string // over HTTP
	GatewayGRPC     string // HOST:PORT over gRPC
	UIURL           string // of Temporal; empty when that is elsewhere
	StoreURL        string // of models, for hosts elsewhere; empty when it is not served
	TemporalAddress string
	Services        []control.Status // that serve, in order of name, when they began to

	folder   Folder
	unlock   func()
	temporal *connection
	control  *roles.Control
	gateway  *roles.Gateway
	worker   *roles.Worker
	store    *roles.Store // nil where hosts elsewhere are not served
	engines  *osutil.Log
	mps      *devices.MPS // nil where not configured
	client   *sdk.Client
	say      func(string, ...any)
	closing  sync.Once
	closed   error
}

// Start starts a system and returns when all its services serve. ctx bounds
// the start. When the start fails, everything is stopped again.
func Start(ctx context.Context, o Options) (*System, error) {
	if role := subprocess.Requested(); role != "" {
		return nil, fmt.Errorf("harpagon: this process was started to be %s, but its main does not call local.ChildMain first; add that call, or set Options.Command to a program that does", role)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir
	}
	if o.HTTPAddr == "" {
		o.HTTPAddr = anyPort
	}
	if o.GRPCAddr == "" {
		o.GRPCAddr = anyPort
	}
	if err := o.checkOwn(); err != nil {
		return nil, err
	}
	s := &System{folder: Folder(o.StateDir), say: lineWriter(o.Progress)}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(s.folder.Explain(err), s.Close())
	}
	return s, nil
}

func lineWriter(progress func(string)) func(string, ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		if progress == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		progress(fmt.Sprintf(format, args...))
	}
}

func (s *System) start(ctx context.Context, o Options) (err error) {
	if s.unlock, err = s.folder.open(); err != nil {
		return err
	}
	ui := o.UIAddr
	if o.WithoutUI || External(o.Environ) {
		ui = ""
	}
	if err := listen.Free(o.HTTPAddr, o.GRPCAddr, ui, o.StoreAddr); err != nil {
		return err // before what takes a while
	}
	if err := s.folder.WriteError(); err != nil {
		return err
	}
	if s.engines, err = osutil.OpenLog(s.folder.log("engines")); err != nil {
		return fmt.Errorf("harpagon: %w", err)
	}
	of := EngineOptions{Functions: o.Functions, Command: o.Command, Log: s.engines, Own: o.Engines}
	if o.MPS {
		if s.mps, err = devices.StartMPS(ctx, devices.MPSOptions{Supervisor: o.Command, Output: s.engines}); err != nil {
			return err
		}
		of.Env = s.mps.Env()
		s.say("%s", s.mps.Describe())
	}
	engines := Engines(of)
	var doc pipelines.Document
	if o.declares() {
		variables := hcl.LoadOptions{Vars: o.Vars, VarFiles: o.VarFiles, Env: o.Environ}
		if doc, err = load(variables, executors.Signatures(engines...), o.Files, o.Document, o.Plan); err != nil {
			return err
		}
		if err := o.Policies.Missing(&doc); err != nil {
			return fmt.Errorf("harpagon: %w", err)
		}
		models := content.Pinning{Store: content.Folder(s.folder.Models()), Fetch: o.Fetch}
		if err := models.Pin(ctx, &doc); err != nil {
			return err
		}
	}
	s.say("starting Temporal")
	connected, err := connect(ctx, o, s.folder)
	if err != nil {
		return err // connect has closed what it opened
	}
	s.temporal = connected
	s.TemporalAddress, s.UIURL = s.temporal.address, s.temporal.uiURL()
	if err := s.startRoles(ctx, o, doc, engines); err != nil {
		return err
	}
	err = s.folder.publish(Endpoints{
		PID: os.Getpid(), Gateway: s.GatewayURL, GRPC: s.GatewayGRPC, UI: s.UIURL, Temporal: s.TemporalAddress, Namespace: s.temporal.namespace,
	})
	if err != nil {
		return err
	}
	return s.serve(ctx, o, doc)
}

func (s *System) startRoles(ctx context.Context, o Options, doc pipelines.Document, engines []executors.Engine) (err error) {
	c := s.temporal.client
	if s.control, err = roles.StartControl(ctx, c, roles.ProvisionOptions{Namespace: s.temporal.namespace, Policies: o.Policies}); err != nil {
		return err
	}
	if o.StoreAddr != "" {
		s.store, err = roles.StartStore(roles.StoreOptions{Addr: o.StoreAddr, Dir: s.folder.Models(), Credentials: o.Credentials})
		if err != nil {
			return err
		}
		s.StoreURL = s.store.URL()
	}
	found, err := s.devices(o, doc)
	if err != nil {
		return err
	}
	if s.gateway, err = roles.StartGateway(ctx, c, roles.GatewayOptions{
		Name:        host,
		Credentials: o.Credentials, Limits: o.Limits, HTTPAddr: o.HTTPAddr, GRPCAddr: o.GRPCAddr, UI: s.UIURL, Namespace: s.temporal.namespace, Record: o.Record, Log: func(line string) { s.say("%s", line) },
		Logger: s.temporal.logger, Gateway: gateway.Options{Policies: o.Policies.Dispatch},
	}); err != nil {
		return err
	}
	s.GatewayURL, s.GatewayGRPC = s.gateway.URL(), s.gateway.GRPC
	s.client = sdk.NewClient(s.gateway.Gateway)
	s.worker, err = roles.StartWorker(ctx, c, roles.HostOptions{
		Name: host, Machine: roles.Machine(o.MPS), Devices: found, Engines: engines, ForceEngine: o.Engine, Dial: s.gateway.Pipe, Memory: s.gateway.Bytes,
		Content: &content.Cache{Dir: s.folder.Models(), Limit: o.CacheSize}, ProfileDir: s.folder.Profiles(), Progress: func(line string) { s.say("%s", line) },
	})
	if err != nil {
		return err
	}
	s.gateway.Watch(s.worker.Readings)
	return nil
}

// devices are those of the declaration, or those of the start before.
func (s *System) devices(o Options, doc pipelines.Document) (all []placement.Device, err error) {
	if !o.declares() {
		if all, err = s.folder.remembered(); err != nil || len(all) > 0 {
			return all, err
		}
	}
	if all, err = Devices(host, doc, o.Engine, o.Cores, o.GPUs); err != nil {
		return nil, err
	}
	if o.GPUs && !devices.HaveGPU(all) {
		s.say("%s", devices.NoGPU)
	}
	return all, s.folder.remember(all)
}

// serve applies the declaration and waits until it is carried out, together
// with what the state folder had before.
func (s *System) serve(ctx context.Context, o Options, doc pipelines.Document) error {
	timeout := o.ReadyTimeout
	if timeout <= 0 {
		timeout = DefaultReadyTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	commands := Control(s.temporal.client, o)
	asked := map[string]workflows.ChangeReply{}
	names, err := commands.List(ctx)
	if err != nil {
		return err
	}
	specs := scheduler.Specs(&doc)
	for i, spec := range specs {
		reply, err := commands.Apply(ctx, workflows.ApplyRequest{Spec: spec, Beside: scheduler.Beside(specs, i)})
		if err != nil {
			return err
		}
		asked[spec.Name()] = reply
		names = append(names, spec.Name())
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		status, err := s.await(ctx, commands, name, asked[name])
		if err != nil {
			if failed := new(control.FailedError); errors.As(err, &failed) {
				failed.Ended = true // nothing is left that would try again
			}
			return err
		}
		if status.Phase == workflows.Drained {
			continue
		}
		if err := s.installed(ctx, name); err != nil {
			return err
		}
		s.Services = append(s.Services, status)
	}
	return nil
}

// hearWithin is how long a service may take to notice that this host is there.
const hearWithin = 10 * time.Second

// await waits until a service serves the requested change, if there is one, through retries
// of failures that pass. Where the change was refused, it logs the reason and waits for
// what served before. A service that goes on unchanged may have looked for its host before
// that had joined again, and plans again once it has: a failure is final only after
// hearWithin.
func (s *System) await(ctx context.Context, commands *control.Control, name string, asked workflows.ChangeReply) (control.Status, error) {
	goesOn := asked.Generation == 0 || asked.Unchanged
	for began := time.Now(); ; {
		status, err := commands.WaitServing(ctx, name, asked.Generation, func(status control.Status) {
			s.say("%s %s: %s", status.Kind, status.Name, status.Phase)
		})
		var failed *control.FailedError
		if errors.As(err, &failed) && failed.Serving > 0 {
			s.say("%v", err)
			asked, goesOn = workflows.ChangeReply{}, true
			continue
		}
		if failed != nil && passing(failed.Failure) && osutil.SleepTimer(ctx, time.Until(failed.Failure.RetryAt)) == nil {
			s.say("%v", err)
			continue
		}
		if !goesOn || !errors.As(err, &failed) || time.Since(began) > hearWithin || osutil.SleepTimer(ctx, 100*time.Millisecond) != nil {
			return status, err
		}
	}
}

// passing reports that a change failed for what passes by itself: others had reserved what it was
// placed on.
func passing(f workflows.Failure) bool {
	return !f.RetryAt.IsZero() && f.Type == activities.TypeConflict
}

// installed waits until the gateway has the service. After a restart the workflow may
// report serving a moment before the new gateway does.
func (s *System) installed(ctx context.Context, name string) error {
	for {
		m, err := s.gateway.Gateway.Metadata(ctx, name)
		if err == nil && m.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("harpagon: the gateway does not serve %q yet: %w", name, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Control makes a Control with a system's settings for new services.
func Control(c client.Client, o Options) *control.Control {
	attach := o.Attach
	if attach == "" {
		attach = roles.LocalGateway
	}
	var hindrance func() error
	if o.StateDir != "" && !External(o.Environ) {
		hindrance = Folder(o.StateDir).WriteError
	}
	return control.New(c, control.Options{
		Poll: 50 * time.Millisecond, Hindrance: hindrance,
		Settings: workflows.Settings{
			Gateway: attach, SearchAttributes: true, HeartbeatTimeout: heartbeatTimeout,
			MaxShare: o.MaxShare, Fixed: o.Fixed, PrepareTimeout: prepareTimeout,
		},
	})
}

// Client sends requests to the system's services, within the process.
func (s *System) Client() *sdk.Client { return s.client }

// Temporal is the client of the server that the system runs on; it is closed
// with the system.
func (s *System) Temporal() client.Client { return s.temporal.client }

// Close stops the system: requests under way finish, executors drain, the state
// is written. Services go on when a system starts on the same folder.
func (s *System) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *System) close() error {
	var errs []error
	if s.gateway != nil {
		errs = append(errs, s.gateway.Stop())
	}
	if s.worker != nil {
		s.worker.Stop()
	}
	if s.gateway != nil {
		s.gateway.Close()
	}
	if s.store != nil {
		s.store.Stop()
	}
	if s.control != nil {
		s.control.Stop()
	}
	if s.temporal != nil {
		errs = append(errs, s.temporal.close())
	}
	if s.mps != nil {
		s.mps.Stop()
	}
	if s.engines != nil {
		errs = append(errs, s.engines.Close())
	}
	if s.unlock != nil {
		if err := os.Remove(s.folder.endpoints()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		s.unlock()
	}
	return errors.Join(errs...)
}
