package roles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/workflows/control"
)

// HostOptions describes a host.
type HostOptions struct {
	Name        string             // stable over restarts; required
	Devices     []placement.Device // what it offers
	Engines     []executors.Engine // what it can run
	ForceEngine string             // the engine of every module, whatever is declared; empty means none

	// Dial opens a stream to the gateway whose address a task carries; nil
	// means gRPC with Credentials.
	Dial func(ctx context.Context, address string) (attach.Stream, error)

	Credentials secure.Credentials
	Keepalive   time.Duration // how long gateways may be silent; 0 means keepalive.DefaultPatience

	GPUs        devices.Lister // reports the state of GPUs; nil means the NVIDIA driver
	Files       fs.FS          // of the machine, from which the container's quota is read; nil is its root folder
	MetricsAddr string         // HOST:PORT for Prometheus, on loopback; empty serves none

	ProfileDir string // keeps measured points; empty keeps none
	Machine    string // kind of machine that profiles hold for; empty means Machine(false)

	// Content has the files of modules by their digests; nil takes files where the
	// declaration names them, as they are when they are loaded.
	Content *content.Cache

	// Confine states what declarations may have the host read, run and call.
	Confine executors.Confinement

	// Memory bounds what the steps of modules make, such as pictures; nil bounds nothing.
	Memory executors.MemoryBound

	// Progress receives a line for each step of the host; may be nil.
	Progress func(string)

	// Notice is how long RunWorker waits after ctx ends for services to move what they run
	// here.
	Notice time.Duration
}

// slotsPerDevice bounds the executors of a host; profiling and holding take a
// few slots more.
const (
	slotsPerDevice = 64
	otherSlots     = 16
)

// Worker is the role of a host.
type Worker struct {
	Host    *executors.Host
	Metrics string // HOST:PORT; empty without

	gpus    devices.Lister
	machine fs.FS
	worker  worker.Worker
	quit    context.CancelFunc // of the server
	servers sync.WaitGroup

	replaced chan struct{} // closed when another process has the host's name

	commands *control.Control
	leaving  atomic.Bool
	asked    chan struct{} // closed when the fleet has the host leave
}

// driverPace is how often the state of GPUs is read from the driver.
const driverPace = 5 * time.Second

// StartWorker starts the role and joins the fleet, which a control role must
// answer for: ctx bounds the wait.
func StartWorker(ctx context.Context, c client.Client, o HostOptions) (*Worker, error) {
	switch {
	case o.Name == "":
		return nil, errors.New("roles: a worker needs a name that stays the same when it restarts; set HostOptions.Name")
	case len(o.Devices) == 0:
		return nil, fmt.Errorf("roles: host %q offers no devices; it would never be given work", o.Name)
	}
	var loop executors.Loopback // in memory, as gateways of this process are reached
	if o.Dial == nil {
		over := attach.Dialer{TCPOptions: attach.TCPOptions{Credentials: o.Credentials, Keepalive: o.Keepalive}}
		o.Dial, loop = over.Dial, over.Loop
	}
	if o.Machine == "" {
		o.Machine = Machine(false)
	}
	host := &executors.Host{Name: o.Name, Devices: o.Devices, Engines: o.Engines, Dial: o.Dial, Loop: loop, ForceEngine: o.ForceEngine, Notice: o.Progress, Content: o.Content, Confine: o.Confine, Memory: o.Memory}
	if o.GPUs == nil {
		o.GPUs = devices.NVIDIA()
	}
	if o.Files == nil {
		o.Files = os.DirFS("/")
	}
	life, quit := context.WithCancel(context.Background())
	r := &Worker{Host: host, machine: o.Files, gpus: devices.Recent(o.GPUs, driverPace), quit: quit, replaced: make(chan struct{}), asked: make(chan struct{})}
	if err := r.serve(life, o.MetricsAddr); err != nil {
		quit()
		return nil, err
	}
	options := activities.HostWorkerOptions(slotsPerDevice*len(o.Devices) + otherSlots)
	options.Identity = o.Name + " " + rand.Text() // of this process alone
	w := worker.New(c, activities.HostQueue(o.Name), options)
	held := &activities.Host{
		Name:       o.Name,
		Machine:    o.Machine,
		Executors:  progressReports{Host: host, progress: o.Progress},
		Store:      activities.ProfileStore{Dir: o.ProfileDir},
		Signatures: host.Signatures(),
		Readings:   r.Readings,
		Pulse:      activities.ClientPulse(c),
		Gateways:   host.Gateways.Set,
		Leaving:    sync.OnceFunc(func() { close(r.asked) }),
	}
	activities.RegisterHost(w, held)
	if err := w.Start(); err != nil {
		r.close()
		return nil, fmt.Errorf("roles: worker: %w", err)
	}
	r.commands = control.New(c, control.Options{})
	instance := rand.Text()
	join := func(ctx context.Context) error {
		view, err := r.commands.Join(ctx, activities.HostInfo{Name: o.Name, Devices: o.Devices, Leaving: r.leaving.Load(), Instance: instance})
		if err != nil {
			return err
		}
		return held.UseGateways(ctx, activities.GatewaysInput{Version: view.Version, Gateways: view.Attached()})
	}
	if err := join(ctx); err != nil {
		w.Stop()
		r.close()
		return nil, fmt.Errorf("roles: worker: does a control role run? %w", err)
	}
	r.worker = w
	again := func(ctx context.Context) error {
		held, err := c.DescribeWorkflowExecution(ctx, string(activities.KindHost)+"/"+o.Name, "")
		if err == nil && heldByAnother(held.PendingActivities, options.Identity) {
			return errTaken
		}
		return join(ctx)
	}
	r.servers.Go(func() {
		if rejoinLoop(life, &held.Presence, again) {
			close(r.replaced)
		}
	})
	return r, nil
}

// heldByAnother reports whether a worker of another identity runs the activity that holds a
// host: one that is only busy, or away from the server, has run it last itself.
func heldByAnother(pending []*workflowpb.PendingActivityInfo, own string) bool {
	return slices.ContainsFunc(pending, func(a *workflowpb.PendingActivityInfo) bool {
		return a.State == enumspb.PENDING_ACTIVITY_STATE_STARTED && a.LastWorkerIdentity != "" && a.LastWorkerIdentity != own
	})
}

// serve offers the metrics of the devices.
func (r *Worker) serve(life context.Context, address string) error {
	if address == "" {
		return nil
	}
	l, err := listen.HTTP(address, secure.Credentials{}, 0)
	if err != nil {
		return err
	}
	r.Metrics = l.Addr().String()
	m := metrics.New()
	m.Registry().MustRegister(metrics.Devices(r.Readings))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	server := listen.Server(mux)
	context.AfterFunc(life, func() { _ = server.Close() })
	r.servers.Go(func() { _ = server.Serve(l) })
	return nil
}

// Readings reports how the devices of the host are doing, GPUs as of a few
// seconds ago.
func (r *Worker) Readings() []devices.Reading {
	gpus, _ := r.gpus.List() // without them, the rest is still reported
	all := devices.Read(r.Host.Name, r.Host.DeviceStatuses(), gpus)
	if quota := osutil.Quota(r.machine); quota > 0 && quota < float64(devices.Cores(r.Host.Devices)) {
		for i := range all {
			all[i].Quota = quota
		}
	}
	return all
}

// Stop drains the executors and ends the role.
func (r *Worker) Stop() {
	r.worker.Stop()
	r.close()
}

func (r *Worker) close() {
	r.quit()
	r.servers.Wait()
}

// progressReports is a host that reports what it does.
type progressReports struct {
	*executors.Host
	progress func(string)
}

func (t progressReports) say(format string, args ...any) {
	if t.progress != nil {
		t.progress(fmt.Sprintf(format, args...))
	}
}

// Measure logs the points, and whether the machine was calm meanwhile.
func (t progressReports) Measure(ctx context.Context, m executors.MeasureTask, from executors.Measured, tell func(executors.Measured)) ([]pipelines.Point, error) {
	measured := m.Missing(from.Points)
	points, err := t.Host.Measure(ctx, m, from, tell)
	if err != nil || len(measured) == 0 {
		return points, err
	}
	for _, p := range points {
		if slices.Contains(measured, executors.SettingOf(p)) {
			t.say("profiled %s on %s: %s", m.Module.Name, p.Hardware, p.Describe())
		}
	}
	if warning := pipelines.Disturbed(pipelines.Module{Name: m.Module.Name, Profile: pipelines.Profile{Points: points}}); warning != "" {
		t.say("%s", warning)
	}
	return points, nil
}

// RunExecutor reports when the executor is ready, and when its engine breaks.
func (t progressReports) RunExecutor(ctx context.Context, task executors.Task, o executors.Observer) error {
	return t.Host.RunExecutor(ctx, task, t.observed(task, o))
}

// observed adds the reports; that it is ready once, at however many gateways and dispatchers.
func (t progressReports) observed(task executors.Task, o executors.Observer) executors.Observer {
	name := task.Slot.Executor
	var ready sync.Once
	o.Attached = func(executors.Status) {
		ready.Do(func() { t.say("executor %s is ready on %s", name, task.Slot.Device) })
	}
	o.Reloading = func(_ executors.Status, attempt int, err error) {
		t.say("executor %s reloads its engine (attempt %d): %v", name, attempt, err)
	}
	return o
}

// Machine names the kind of machine that the program runs on: profiles
// measured on one do not hold for another, nor those with MPS without.
func Machine(mps bool) string {
	all := []string{runtime.GOOS, runtime.GOARCH, processor(), fmt.Sprintf("%d cores", runtime.NumCPU())}
	if mps {
		all = append(all, "MPS")
	}
	return strings.Join(all, ", ")
}

func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// leaveEvery is the pace at which a host that leaves looks whether it is still needed.
const leaveEvery = 200 * time.Millisecond

// leave notifies the fleet that the host is about to go, so that services move what they
// run here, and waits until nothing runs here or is about to, at most until notice ends.
func (r *Worker) leave(notice context.Context) {
	r.leaving.Store(true) // should it have to join again meanwhile
	tell := func(ctx context.Context) error {
		_, err := r.commands.Leave(ctx, r.Host.Name)
		return err
	}
	leave(notice, tell, r.needed)
}

// leave calls tell until it succeeds, and waits until the host is needed no more.
func leave(ctx context.Context, tell func(context.Context) error, needed func(context.Context) bool) {
	for told := false; ctx.Err() == nil; {
		told = told || tell(ctx) == nil
		if told && !needed(ctx) {
			return
		}
		select {
		case <-time.After(leaveEvery):
		case <-ctx.Done():
		}
	}
}

// needed reports whether an executor runs here, or a service has reserved a device for one.
func (r *Worker) needed(ctx context.Context) bool {
	for _, d := range r.Host.DeviceStatuses() {
		if d.Executors > 0 {
			return true
		}
	}
	view, err := r.commands.Fleet(ctx)
	return err != nil || view.Uses(r.Host.Name)
}
