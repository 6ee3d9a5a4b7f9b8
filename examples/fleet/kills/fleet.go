package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet is the processes.
type fleet struct {
	options *options
	work    string // folder of logs and state
	mu      sync.Mutex
	running map[string]*exec.Cmd // by name
	logged  map[string]int       // bytes that are in the log of a process when it starts
}

// member is how a process is started.
type member struct {
	name string
	args []string
}

func (f *fleet) address(n int) string { return fmt.Sprintf("127.0.0.1:%d", f.options.port+n) }

func (f *fleet) gateways() []string { return []string{f.address(10), f.address(12)} }

// members are all processes but Temporal, two of each role.
func (f *fleet) members() []member {
	all := []member{{"control-1", []string{"control"}}, {"control-2", []string{"control"}}}
	for i := range 2 {
		n := fmt.Sprint(i + 1)
		all = append(all,
			member{"dispatcher-" + n, []string{"dispatcher", "--name", "dispatcher-" + n, "--listen", f.address(20 + 2*i)}},
			member{"worker-" + n, []string{"worker", "--name", "worker-" + n, "--cores", "2"}},
			member{"gateway-" + n, []string{
				"gateway", "--name", "gateway-" + n, "--dispatcher", "fleet",
				"--http", f.address(10 + 2*i), "--grpc", "", "--attach", f.address(11 + 2*i),
			}})
	}
	return all
}

func startFleet(ctx context.Context, o *options) (*fleet, error) {
	work, err := os.MkdirTemp("", "kills-")
	if err != nil {
		return nil, err
	}
	f := &fleet{options: o, work: work, running: map[string]*exec.Cmd{}, logged: map[string]int{}}
	ready := func() error {
		if err := f.start(member{"temporal", []string{"temporal", "--addr", f.address(0), "--ui", "", "--state", filepath.Join(work, "temporal")}}); err != nil {
			return err
		}
		f.says("temporal", "Temporal", 1)
		for _, m := range f.members() {
			if err := f.start(m); err != nil {
				return err
			}
			if m.name == "control-2" {
				f.says(m.name, "control runs", 1)
			}
		}
		for _, g := range f.gateways() {
			if err := answers(ctx, "http://"+g+"/v2/health/ready"); err != nil {
				return err
			}
		}
		apply := f.command("apply", o.folder)
		if out, err := apply.CombinedOutput(); err != nil {
			return fmt.Errorf("apply: %w: %s", err, out)
		}
		for _, g := range f.gateways() {
			if err := answers(ctx, "http://"+g+"/v2/models/kills/ready"); err != nil {
				return err
			}
		}
		time.Sleep(4 * time.Second) // for dispatchers to be ready for their share
		status, err := f.command("status").CombinedOutput()
		fmt.Printf("%s\n", status)
		return err
	}
	if err := ready(); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

func (f *fleet) command(args ...string) *exec.Cmd {
	program := f.options.harpagon
	if args[0] == "temporal" {
		program = cmp.Or(f.options.temporal, program)
	}
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+f.address(0))
	return c
}

func (f *fleet) start(m member) error {
	log, err := os.OpenFile(filepath.Join(f.work, m.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	written := 0
	if info, err := log.Stat(); err == nil {
		written = int(info.Size())
	}
	c := f.command(m.args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[m.name], f.logged[m.name] = c, written
	return nil
}

func (f *fleet) signal(name string, s syscall.Signal) {
	f.mu.Lock()
	c := f.running[name]
	f.mu.Unlock()
	_ = c.Process.Signal(s)
	if s == syscall.SIGKILL {
		_ = c.Wait()
	}
}

func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.running {
		_ = c.Process.Kill()
		_ = c.Wait()
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
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.New(url + " does not answer")
		}
	}
}

// loss is a process that was taken away.
type loss struct {
	at   time.Time
	role string
	how  string
}

// takeAway takes processes away, one role after the other and of each the one after the
// other, and brings each back before the next.
func (f *fleet) takeAway(o *options) (all []loss) {
	roles := strings.Split(o.roles, ",")
	members := f.members()
	for n := range o.kills {
		role := roles[n%len(roles)]
		name := fmt.Sprintf("%s-%d", role, n/len(roles)%2+1)
		stop := o.stops && n/(2*len(roles))%2 == 1
		how := "kill -9"
		if stop {
			how = "SIGSTOP"
		}
		begun := time.Now()
		all = append(all, loss{begun, role, how})
		fmt.Printf("%s %s\n", how, name)
		if stop {
			f.signal(name, syscall.SIGSTOP)
			time.Sleep(2*time.Second + rand.N(6*time.Second))
			f.signal(name, syscall.SIGCONT)
		} else {
			f.signal(name, syscall.SIGKILL)
			time.Sleep(2 * time.Second)
			for _, m := range members {
				if m.name == name {
					_ = f.start(m)
				}
			}
		}
		if role == "worker" && !stop {
			f.says(name, "is ready on", 2) // the other is not taken before
		}
		time.Sleep(max(2*time.Second, o.every-time.Since(begun)))
	}
	return all
}

// says waits until a process has written a text so often since it has started last.
func (f *fleet) says(name, text string, times int) {
	for range 600 {
		log, _ := os.ReadFile(filepath.Join(f.work, name+".log"))
		if strings.Count(string(log)[min(f.from(name), len(log)):], text) >= times {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// from is how much of a log is of processes before the one that runs.
func (f *fleet) from(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logged[name]
}
