package deploy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
)

// cluster runs the pods of the chart as processes of this machine: each with an address of
// its own on loopback, and its command as the chart writes it, but for names of services,
// which stand for these addresses, and folders.
type cluster struct {
	*testing.T
	program, folder string
	at              map[string]string // addresses of pods
	names           *strings.Replacer
	running         map[string]*running
}

const secret = "0123456789abcdef" // in place of all secrets

func newCluster(t *testing.T, program string, all []any) (*cluster, []pod) {
	c := &cluster{T: t, program: program, folder: t.TempDir(), at: map[string]string{}, running: map[string]*running{}}
	var pods []pod
	var names []string
	for _, s := range sets(all) {
		for i := range s.replicas {
			p := pod{name: fmt.Sprintf("%s-%d", s.name, i), labels: s.pod.Labels, Container: s.pod.Spec.Containers[0]}
			c.at[p.name] = fmt.Sprintf("127.77.0.%d", len(pods)+1)
			pods = append(pods, p)
			names = append(names, fmt.Sprintf("%s.%s.space.svc", p.name, s.service), c.at[p.name])
		}
	}
	for _, m := range all {
		if files, ok := m.(*core.ConfigMap); ok {
			for name, text := range files.Data {
				require.NoError(t, os.WriteFile(filepath.Join(c.folder, name), []byte(text), 0o600))
			}
		}
		s, ok := m.(*core.Service)
		for _, p := range pods {
			if ok && selects(s.Spec.Selector, p.labels) {
				names = append(names, s.Name+".space.svc", c.at[p.name])
				break
			}
		}
	}
	c.names = strings.NewReplacer(names...)
	return c, pods
}

type pod struct {
	core.Container
	name   string
	labels map[string]string
}

// environment is the pod's, as Kubernetes fills it in.
func (c *cluster) environment(p pod) (all []string) {
	for _, v := range p.Env {
		value := v.Value
		switch from := v.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			value = secret
		case from.FieldRef.FieldPath == "metadata.name":
			value = p.name
		case from.FieldRef.FieldPath == "status.podIP":
			value = c.at[p.name]
		default:
			c.Fatalf("%s: %v", p.name, v)
		}
		all = append(all, v.Name+"="+c.names.Replace(value))
	}
	return all
}

// command is the pod's, with its variables.
func (c *cluster) command(p pod) (args []string) {
	folder := filepath.Join(c.folder, p.name)
	require.NoError(c, os.MkdirAll(filepath.Join(folder, "tmp"), 0o700))
	environment := c.environment(p)
	for _, a := range p.Args {
		for _, v := range environment {
			name, value, _ := strings.Cut(v, "=")
			a = strings.ReplaceAll(a, "$("+name+")", value)
		}
		if regexp.MustCompile(`^:\d+$`).MatchString(a) {
			a = c.at[p.name] + a
		}
		a = strings.NewReplacer("/var/lib/harpagon", folder, "/tmp/", folder+"/tmp/", "/etc/harpagon/hosts", c.folder).Replace(a)
		args = append(args, c.names.Replace(a))
	}
	return args
}

// start keeps a pod running, as the kubelet does: one that ends is started again until it is
// stopped.
func (c *cluster) start(p pod) {
	args, environment := c.command(p), append(c.environment(p), "PATH="+os.Getenv("PATH"), "HOME="+c.folder)
	command := func() *exec.Cmd { return exec.Command(c.program, args...) }
	if p.Name == "postgres" {
		command = c.database(p)
	}
	log, err := os.Create(filepath.Join(c.folder, p.name+".log"))
	require.NoError(c, err)
	r := &running{over: make(chan error, 1)}
	c.running[p.name] = r
	go func() {
		for {
			run := command()
			run.Env, run.Stdout, run.Stderr = environment, log, log
			if err := r.run(run); r.stopped.Load() {
				r.over <- err
				return
			}
			time.Sleep(time.Second)
		}
	}()
	c.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		<-r.over
		_ = log.Close()
		if text, _ := os.ReadFile(log.Name()); c.Failed() {
			c.Logf("%s:\n%s", p.name, text[max(0, len(text)-2000):])
		}
	})
}

// running is the process of a pod.
type running struct {
	mu      sync.Mutex
	now     *exec.Cmd
	stopped atomic.Bool
	over    chan error // what the last process ended with
}

// run runs one process, unless the pod is stopped.
func (r *running) run(what *exec.Cmd) error {
	r.mu.Lock()
	if r.stopped.Load() {
		r.mu.Unlock()
		return nil
	}
	err := what.Start()
	r.now = what
	r.mu.Unlock()
	return cmp.Or(err, what.Wait())
}

func (r *running) signal(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped.Store(true)
	if r.now != nil {
		_ = r.now.Process.Signal(s)
	}
}

// database makes a database and the command that serves it. PostgreSQL does not run as root.
func (c *cluster) database(p pod) func() *exec.Cmd {
	data := filepath.Join(c.folder, p.name, "data")
	as := func(args ...string) *exec.Cmd {
		if os.Getuid() == 0 {
			args = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"}, args...)
		}
		return exec.Command(args[0], args[1:]...)
	}
	require.NoError(c, os.MkdirAll(data, 0o700))
	if os.Getuid() == 0 {
		for at := filepath.Dir(data); at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
			require.NoError(c, os.Chmod(at, 0o755))
		}
		out, err := exec.Command("chown", "postgres:", data).CombinedOutput()
		require.NoError(c, err, "%s", out)
	}
	fresh := as("initdb", "-D", data, "-U", "harpagon", "--auth=trust", "--no-sync")
	fresh.Dir = "/"
	out, err := fresh.CombinedOutput()
	require.NoError(c, err, "%s", out)
	return func() *exec.Cmd {
		run := as("postgres", "-D", data, "-h", c.at[p.name], "-k", data, "-c", "max_connections=400")
		run.Dir = "/"
		return run
	}
}

// client runs a command that may reach the pods.
func (c *cluster) client(ctx context.Context, args ...string) (string, error) {
	run := exec.CommandContext(ctx, c.program, args...)
	run.Env = append(os.Environ(), "HARPAGON_TOKEN="+secret, "TEMPORAL_ADDRESS="+c.at["rel-temporal-0"]+":7233")
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	err := run.Run()
	return out.String(), err
}

// ready probes readiness as Kubernetes would.
func (c *cluster) ready(p pod) bool {
	port := func(name string) string {
		i := slices.IndexFunc(p.Ports, func(o core.ContainerPort) bool { return o.Name == name })
		return fmt.Sprintf("%s:%d", c.at[p.name], p.Ports[i].ContainerPort)
	}
	switch probe := p.ReadinessProbe; {
	case probe == nil || probe.Exec != nil:
		return true
	case probe.TCPSocket != nil:
		conn, err := net.Dial("tcp", port(probe.TCPSocket.Port.StrVal))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	default:
		answer, err := http.Get("http://" + port(probe.HTTPGet.Port.StrVal) + probe.HTTPGet.Path)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}
}

func (c *cluster) infer(gateway string) error {
	frame := filepath.Join(c.folder, "frame.json")
	require.NoError(c, os.WriteFile(frame, []byte("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]"), 0o600))
	out, err := c.client(c.Context(), "infer", "fleet", "--gateway", c.at[gateway]+":8080", "--timeout", "1m", "--input", "frame="+frame)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// metrics reads metrics as Prometheus does.
func (c *cluster) metrics(gateway string) string {
	q, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.at[gateway]+":8080/metrics", nil)
	require.NoError(c, err)
	q.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(q)
	require.NoError(c, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	return string(text)
}

// stop is what a pod's termination does to it: it has to end well.
func (c *cluster) stop(pod string) { c.running[pod].signal(syscall.SIGTERM) }

func (c *cluster) ended(pod string) {
	err := <-c.running[pod].over
	c.running[pod].over <- nil // for the cleanup
	require.NoError(c, err, pod)
}

// The pods serve with the commands that the chart gives them. A pod that is ended first
// reports not to be ready, and goes on taking requests until its endpoint is gone.
func TestThePodsServe(t *testing.T) {
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("builds the whole program; HARPAGON_LONG=1 runs it")
	}
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs PostgreSQL: initdb and postgres")
		}
	}
	all := rendered(t, `
keda: {prometheus: "http://prometheus"}
workers:
  - {name: cpu, replicas: 2, cores: 1, notice: 60s}
  - {name: more, cores: 1, notice: 60s, autoscale: {hardware: cpu, max: 4}}
`)
	program := filepath.Join(t.TempDir(), "harpagon")
	build := exec.Command("go", "build", "-o", program, "../../cmd/harpagon")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	c, pods := newCluster(t, program, all)
	for _, p := range pods {
		c.start(p)
	}
	for _, p := range pods {
		require.Eventually(t, func() bool { return c.ready(p) }, 5*time.Minute, 50*time.Millisecond, p.name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	said, err := c.client(ctx, "apply", "../fleet", "--wait", "4m")
	require.NoError(t, err, said)
	for _, gateway := range []string{"rel-gateway-0", "rel-gateway-1"} {
		require.NoError(t, c.infer(gateway))
	}

	require.Regexp(t, `harpagon_devices_wanted\{hardware="cpu"\} [1-9]`, c.metrics("rel-gateway-1"), "what KEDA goes by")

	c.stop("rel-gateway-0")
	leaving := slices.IndexFunc(pods, func(p pod) bool { return p.name == "rel-gateway-0" })
	require.Eventually(t, func() bool { return !c.ready(pods[leaving]) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, c.infer("rel-gateway-0"), "within its notice")
	c.ended("rel-gateway-0")
	require.NoError(t, c.infer("rel-gateway-1"))

	c.stop("rel-worker-cpu-0")
	c.ended("rel-worker-cpu-0")
	require.NoError(t, c.infer("rel-gateway-1"), "what ran there has moved")
	c.stop("rel-dispatcher-0")
	c.ended("rel-dispatcher-0")
	require.NoError(t, c.infer("rel-gateway-1"))
}
