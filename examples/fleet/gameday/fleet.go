package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet is the processes, what lies between them, and their disks.
type fleet struct {
	options *options
	work    string // folder of logs and state
	relays  map[string]*relay
	disks   map[string]disk // by the process whose state is on it; empty without root
	mu      sync.Mutex
	running map[string]*exec.Cmd // by name
	program map[string]string    // of those that are of another edition than the options', by name; "" is of commands
	logged  map[string]int       // bytes that are in the log of a process when it starts
}

// member is how a process is started.
type member struct {
	name string
	args []string
}

func newFleet(o *options) (*fleet, error) {
	work, err := os.MkdirTemp("", "gameday-")
	if err != nil {
		return nil, err
	}
	f := &fleet{
		options: o, work: work, relays: map[string]*relay{}, disks: map[string]disk{},
		running: map[string]*exec.Cmd{}, program: map[string]string{}, logged: map[string]int{},
	}
	if o.list {
		defer os.RemoveAll(work)
	}
	// Servers of PostgreSQL and their data belong to a user who must come to the folder.
	return f, os.Chmod(work, 0o711)
}

// Ports, counted from the first. What others connect to is a relay, relayed farther on.
const (
	temporal   = 0 // a server of a cluster takes seven more
	http1      = 10
	attach1    = 12
	decide1    = 20 // and the one after it for executors
	postgresql = 30
	relayed    = 50
)

func (f *fleet) address(n int) string { return fmt.Sprintf("127.0.0.1:%d", f.options.port+n) }

func (f *fleet) gateways() []string {
	return []string{f.address(relayed + http1), f.address(relayed + http1 + 1)}
}

// lines are the ports that have a relay, by what goes through.
func (f *fleet) lines() map[string]int {
	return map[string]int{
		"all to temporal":          temporal,
		"clients to gateway-1":     http1,
		"clients to gateway-2":     http1 + 1,
		"executors to gateway-1":   attach1,
		"executors to gateway-2":   attach1 + 1,
		"gateways to dispatcher-1": decide1, "executors to dispatcher-1": decide1 + 1,
		"gateways to dispatcher-2": decide1 + 2, "executors to dispatcher-2": decide1 + 3,
	}
}

// members are all processes but Temporal, two of each role.
func (f *fleet) members() []member {
	all := []member{{"control-1", []string{"control"}}, {"control-2", []string{"control"}}}
	for i := range 2 {
		n := fmt.Sprint(i + 1)
		state := filepath.Join(f.work, "worker-"+n)
		all = append(all,
			member{"dispatcher-" + n, []string{
				"dispatcher", "--name", "dispatcher-" + n, "--listen", f.address(decide1 + 2*i), "--advertise", f.address(relayed + decide1 + 2*i),
			}},
			member{"worker-" + n, []string{
				"worker", "--name", "worker-" + n, "--cores", "2", "--cache", filepath.Join(state, "cache"), "--profiles", filepath.Join(state, "profiles"),
			}},
			member{"gateway-" + n, []string{
				"gateway", "--name", "gateway-" + n, "--dispatcher", "fleet", "--http", f.address(http1 + i), "--grpc", "",
				"--attach", f.address(attach1 + i), "--advertise", f.address(relayed + attach1 + i),
			}})
	}
	return all
}

// temporal is the server, with its state in a file or in PostgreSQL.
func (f *fleet) temporal() member {
	args := []string{"temporal", "--addr", f.address(temporal), "--ui", "", "--state", filepath.Join(f.work, "temporal")}
	if f.options.postgres {
		args = append(args, "--shards", "16", "--postgres", "postgres://harpagon@"+f.address(postgresql)+"/temporal?sslmode=disable")
	}
	return member{"temporal", args}
}

// begin starts everything, and returns when it serves.
func (f *fleet) begin(ctx context.Context) error {
	for name, port := range f.lines() {
		r, err := newRelay(f.address(relayed+port), f.address(port))
		if err != nil {
			return err
		}
		f.relays[name] = r
	}
	if os.Geteuid() == 0 {
		for _, name := range []string{f.state(), "worker-1", "worker-2"} {
			mib, owner := 32, 0
			if name == f.state() {
				mib, owner = 512, f.owner()
			}
			d, err := mount(filepath.Join(f.work, name), mib, owner)
			if err != nil {
				return err
			}
			f.disks[name] = d
		}
	}
	if err := f.beginState(ctx); err != nil {
		return err
	}
	for _, m := range f.members() {
		if err := f.start(m); err != nil {
			return err
		}
		if m.name == "control-2" && !f.says(ctx, m.name, "control runs") {
			return errors.New("control does not run")
		}
	}
	for _, g := range f.gateways() {
		if err := answers(ctx, "http://"+g+"/v2/health/ready"); err != nil {
			return err
		}
	}
	for !f.known(ctx, 0) {
		if !wait(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
	if err := f.change(ctx, 0); err != nil {
		return err
	}
	f.whole(ctx)
	wait(ctx, 4*time.Second) // for dispatchers to be ready for their share
	status, err := f.command(ctx, "status").CombinedOutput()
	fmt.Printf("%s\n", status)
	return err
}

// change applies the declaration, each time for another rate, so that it is planned again.
func (f *fleet) change(ctx context.Context, n int) error {
	out, err := f.apply(ctx, 420+n%2*10)
	if err != nil {
		return fmt.Errorf("apply: %w: %s", err, out)
	}
	return nil
}

// apply applies the declaration for a rate. In an upgrade requests have all the time that
// they wait for, so that what has no answer is not the fault of a machine that is slow.
func (f *fleet) apply(ctx context.Context, rate int) ([]byte, error) {
	slo := objective
	if f.options.before != "" {
		slo = deadline
	}
	return f.command(ctx, "apply", f.options.folder, "--var", fmt.Sprintf("rate=%d", rate), "--var", fmt.Sprintf("slo=%v", slo)).CombinedOutput()
}

// command is a command of harpagon to the fleet.
func (f *fleet) command(ctx context.Context, args ...string) *exec.Cmd {
	return f.runs(ctx, "", args)
}

// runs is the program of a member, or of commands.
func (f *fleet) runs(ctx context.Context, name string, args []string) *exec.Cmd {
	program := cmp.Or(f.program[name], f.options.harpagon)
	if args[0] == "temporal" {
		program = cmp.Or(f.options.temporal, program)
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+f.address(relayed+temporal))
	return c
}

func (f *fleet) start(m member) error {
	return f.spawn(m.name, f.runs(context.Background(), m.name, m.args))
}

func (f *fleet) spawn(name string, c *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(f.work, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	written := 0
	if info, err := log.Stat(); err == nil {
		written = int(info.Size())
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[name], f.logged[name] = c, written
	return nil
}

func (f *fleet) signal(name string, s syscall.Signal) {
	f.mu.Lock()
	c := f.running[name]
	f.mu.Unlock()
	if c == nil {
		return
	}
	_ = c.Process.Signal(s)
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		_ = c.Wait()
		f.mu.Lock()
		delete(f.running, name)
		f.mu.Unlock()
	}
}

// restart starts a member that was killed.
func (f *fleet) restart(name string) {
	for _, m := range append(f.members(), f.temporal()) {
		if m.name == name {
			if err := f.start(m); err != nil {
				fmt.Println("   ", err)
			}
		}
	}
}

func (f *fleet) end() {
	for _, m := range f.members() {
		f.signal(m.name, syscall.SIGKILL)
	}
	f.endState()
	for _, r := range f.relays {
		r.close()
	}
	for _, d := range f.disks {
		d.Unmount()
	}
	if f.options.keep {
		fmt.Println("logs are in", f.work)
		return
	}
	_ = os.RemoveAll(f.work)
}

// answers waits until a URL does.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		r, err := http.Get(url)
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		if !wait(ctx, 200*time.Millisecond) {
			return errors.New(url + " does not answer")
		}
	}
}

// whole waits until both gateways serve, the executors of both workers are attached to
// them, and the fleet lists all; it reports whether that happened in time.
func (f *fleet) whole(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		ready := true
		for _, g := range f.gateways() {
			ready = ready && answers(ctx, "http://"+g+"/v2/models/gameday/ready") == nil && f.attached(ctx, g) == executors
		}
		if ready && f.known(ctx, executors/2) {
			return true
		}
		if !wait(ctx, 500*time.Millisecond) {
			return false
		}
	}
}

// executors that the plan has.
const executors = 4

// attached is how many executors are attached to a gateway.
func (f *fleet) attached(ctx context.Context, gateway string) int {
	all, err := metrics(ctx, gateway)
	if err != nil {
		return 0
	}
	return int(all["harpagon_executors"])
}

// known reports whether the fleet has so many executors of both workers, and both of all others.
func (f *fleet) known(ctx context.Context, executors int) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := f.command(ctx, "status", "--json").Output()
	var status struct {
		Fleet struct {
			Gateways, Dispatchers []struct{}
			Hosts                 []struct{ Devices []struct{ Executors int } }
		}
	}
	if err != nil || json.Unmarshal(out, &status) != nil {
		return false
	}
	hosts := 0
	for _, h := range status.Fleet.Hosts {
		n := 0
		for _, d := range h.Devices {
			n += d.Executors
		}
		if n == executors {
			hosts++
		}
	}
	return hosts == 2 && len(status.Fleet.Gateways) == 2 && len(status.Fleet.Dispatchers) == 2
}

// says waits until a process has written a text since its last start, for a minute at most,
// and reports whether it has.
func (f *fleet) says(ctx context.Context, name, text string) bool {
	for range 600 {
		if strings.Contains(f.log(name), text) {
			return true
		}
		if !wait(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return false
}

// log is what a process has written since it has started last.
func (f *fleet) log(name string) string {
	all, _ := os.ReadFile(filepath.Join(f.work, name+".log"))
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(all[min(f.logged[name], len(all)):])
}

// state is the process whose disk has what is durable.
func (f *fleet) state() string {
	if f.options.postgres {
		return "postgres"
	}
	return "temporal"
}

// owner is who may write it: PostgreSQL does not run as root, and its package makes a user.
func (f *fleet) owner() int {
	if f.options.postgres && os.Geteuid() == 0 {
		if u, err := user.Lookup("postgres"); err == nil {
			n, _ := strconv.Atoi(u.Uid)
			return n
		}
	}
	return os.Geteuid()
}

// beginState starts Temporal, and PostgreSQL before it where configured.
func (f *fleet) beginState(ctx context.Context) error {
	if f.options.postgres {
		if err := f.beginPostgres(ctx); err != nil {
			return err
		}
	}
	if err := f.start(f.temporal()); err != nil {
		return err
	}
	if !f.says(ctx, "temporal", "Temporal") {
		return errors.New("temporal does not run: " + f.log("temporal"))
	}
	return nil
}

func (f *fleet) beginPostgres(ctx context.Context) error {
	data := filepath.Join(f.work, "postgres", "data")
	if _, err := os.Stat(data); err != nil {
		if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
			return err
		}
		if out, err := f.postgres("initdb", "-D", data, "-U", "harpagon", "--auth=trust", "--no-sync").CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w: %s", err, out)
		}
	}
	_ = os.Remove(filepath.Join(data, "postmaster.pid")) // of one that was killed
	// A small log of changes, so that the disk may be small.
	one := f.postgres("postgres", "-D", data, "-k", filepath.Dir(data), "-c", "listen_addresses=127.0.0.1",
		"-p", strconv.Itoa(f.options.port+postgresql), "-c", "max_connections=400", "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB")
	if err := f.spawn("postgres", one); err != nil {
		return err
	}
	if !f.says(ctx, "postgres", "ready to accept") {
		return errors.New("PostgreSQL does not run: " + f.log("postgres"))
	}
	return nil
}

// postgres is a program of PostgreSQL's, run by its own user.
func (f *fleet) postgres(program string, args ...string) *exec.Cmd {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(all) > 0 {
		program = all[len(all)-1]
	}
	c := exec.Command(program, args...)
	if owner := f.owner(); owner != os.Geteuid() {
		c = exec.Command("setpriv", append([]string{"--reuid", "postgres", "--regid", "postgres", "--init-groups", program}, args...)...)
	}
	c.Dir = f.work
	return c
}

// endState kills Temporal, and PostgreSQL with the children that serve its connections:
// they leave when the first is gone.
func (f *fleet) endState() {
	f.signal("temporal", syscall.SIGKILL)
	if f.options.postgres {
		f.signal("postgres", syscall.SIGQUIT)
		f.signal("postgres", syscall.SIGKILL)
	}
}
