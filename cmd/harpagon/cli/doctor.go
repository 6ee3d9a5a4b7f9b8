package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire/listen"
)

// symptom is the doctor's finding on one thing.
type symptom struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // the problem, and what to do

	absent bool // and only some need it
}

func seen(check string, ok bool, found, advice string) symptom {
	return symptom{Check: check, OK: ok, Found: found, Advice: advice}
}

// Thresholds of findings.
const (
	leastShared = 256 << 20        // of /dev/shm
	leastDisk   = 2 << 30          // free
	leastMemory = 1 << 30          // free
	lateSleep   = time.Millisecond // a sleep of a millisecond takes twice as long
	sleeps      = 20               // of which the median counts
	busyShare   = 0.5              // of the cores, used by others
)

// doctor looks at a machine. Its files are read from root.
type doctor struct {
	root  fs.FS
	state string
	ports []string
}

// newDoctorCommand makes harpagon doctor.
func newDoctorCommand(d *Deps) *cobra.Command {
	var asJSON bool
	x := doctor{root: os.DirFS("/")}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for what would cause problems",
		Long: `Looks at what serving needs of the machine: the library of ONNX Runtime, the driver of
NVIDIA GPUs, cores and the quota of a container, what other programs use of them,
memory, /dev/shm, limits of files, how late timers are, whether something keeps the
clock right, ports and disk. It changes nothing, and reports what to do about each.`,
		Example: `  harpagon doctor
  harpagon doctor --state /var/lib/harpagon --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all := x.look(c.Context())
			if asJSON {
				return writeJSON(d.Stdout, map[string]any{"findings": all})
			}
			return describeSymptoms(d.Stdout, all)
		},
	}
	c.Flags().StringVar(&x.state, "state", ".harpagon", "state `folder` that will be used")
	c.Flags().StringSliceVar(&x.ports, "ports", []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8233"}, "`addresses` that will be used: HTTP, gRPC, Temporal's UI")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (x doctor) look(ctx context.Context) (all []symptom) {
	for _, one := range []func() symptom{
		x.library, x.driver, x.cores, x.load, x.memory, x.shared, x.files, func() symptom { return x.timers(ctx) }, x.clock, x.disk,
	} {
		if f := one(); f.Found != "" { // what is unknown is left out
			all = append(all, f)
		}
	}
	for _, port := range x.ports {
		all = append(all, openable(ctx, port))
	}
	return all
}

func (x doctor) library() symptom {
	lib, err := onnxruntime.Find(onnxruntime.Options{})
	if err != nil {
		return seen("library", false, "no ONNX Runtime", fmt.Sprintf("Networks are computed by gorgonia, which supports 15 operators and is slow: %v", err))
	}
	return seen("library", true, lib.Describe(), "")
}

func (x doctor) driver() symptom {
	version, err := fs.ReadFile(x.root, "proc/driver/nvidia/version")
	if err != nil {
		return symptom{Check: "driver", OK: true, Found: "no driver of NVIDIA (only modules on GPUs need it)", absent: true}
	}
	first, _, _ := strings.Cut(string(version), "\n")
	gpus, err := devices.NVIDIA().List()
	if err != nil {
		return seen("driver", false, first, fmt.Sprintf("The driver is there and its devices cannot be listed (%v): see whether nvidia-smi does, and whether a container is given them.", err))
	}
	return seen("driver", true, fmt.Sprintf("%s; %s", first, quantity.Count(len(gpus), "GPU")), "")
}

func (x doctor) cores() symptom {
	have, quota := osutil.Cores(), osutil.Quota(x.root)
	f := seen("cores", true, fmt.Sprintf("%d of %d", have, runtime.NumCPU()), "")
	if quota > 0 {
		f.Found += fmt.Sprintf(", a quota of %s", quantity.Number(quota))
	}
	if quota > 0 && float64(have) > quota {
		f.OK = false
		f.Advice = "The quota is less than one core, so that the device stands still for a part of each 100 ms, and what is measured holds for this quota only: give a whole number of cores."
	}
	if n := x.number("sys/fs/cgroup/cpu.stat", "nr_throttled"); n > 0 && f.OK {
		f.OK, f.Advice = false, fmt.Sprintf("The quota has stopped this container %.0f times so far; give it more, or serve less with --cores.", n)
	}
	return f
}

func (x doctor) load() symptom {
	text, err := fs.ReadFile(x.root, "proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return symptom{}
	}
	average, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return symptom{}
	}
	f := seen("load", true, fmt.Sprintf("%s waiting or running on average", quantity.Number(average)), "")
	if average > busyShare*float64(runtime.NumCPU()) {
		f.OK, f.Advice = false, "Other programs use the cores: what is measured now is too long, and what is promised is not kept while they do. End them, or offer fewer cores with --cores."
	}
	return f
}

func (x doctor) memory() symptom {
	free := x.number("proc/meminfo", "MemAvailable:") * 1024
	if free == 0 {
		return symptom{}
	}
	f := seen("memory", true, quantity.Bytes(int64(free))+" free", "")
	if text, err := fs.ReadFile(x.root, "sys/fs/cgroup/memory.max"); err == nil {
		if most, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
			free = min(free, most)
			f.Found += ", at most " + quantity.Bytes(int64(most)) + " for this container"
		}
	}
	if free < leastMemory {
		f.OK, f.Advice = false, "That is little: Temporal takes some 200 MiB, each engine what its network needs, and requests under way up to a quarter (--max-bytes)."
	}
	return f
}

// number is the value of a name in a file of lines "name number"; 0 where it is missing.
func (x doctor) number(file, name string) float64 {
	text, _ := fs.ReadFile(x.root, file)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			n, _ := strconv.ParseFloat(fields[1], 64)
			return n
		}
	}
	return 0
}

func (x doctor) shared() symptom {
	free, ok := freeAt("/dev/shm")
	if !ok {
		return symptom{}
	}
	f := seen("/dev/shm", free >= leastShared, quantity.Bytes(free)+" free", "")
	if !f.OK {
		f.Advice = "Programs in Python keep tensors there, and Docker gives 64 MiB: start the container with --shm-size 1g, or mount an emptyDir with medium Memory."
	}
	return f
}

func (x doctor) files() symptom {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return symptom{}
	}
	advice := listen.WarnFewDescriptors()
	return seen("files", advice == "", fmt.Sprintf("%d may be open", r.Cur), advice)
}

func (x doctor) timers(ctx context.Context) symptom {
	var late []time.Duration
	for range sleeps {
		begin := time.Now()
		if osutil.Sleep(ctx, time.Millisecond) != nil {
			return symptom{}
		}
		late = append(late, time.Since(begin)-time.Millisecond)
	}
	slices.Sort(late)
	median := late[len(late)/2]
	f := seen("timers", median < lateSleep, quantity.Duration(median)+" late", "")
	if !f.OK {
		f.Advice = "Batches start that much late. The machine is busy, or the kernel gathers timers: see the load, and a virtual machine's clock source."
	}
	return f
}

func (x doctor) clock() symptom {
	kept, known := osutil.ClockKept()
	switch {
	case !known:
		return symptom{}
	case kept:
		return seen("clock", true, "kept right", "")
	}
	return seen("clock", false, "nobody keeps it right", "On one machine that does not matter; of a fleet, certificates, tokens and logs go by it: run chrony or systemd-timesyncd.")
}

func (x doctor) disk() symptom {
	folder, err := filepath.Abs(x.state)
	for err == nil { // the first that is there
		if free, ok := freeAt(folder); ok {
			f := seen("disk", free >= leastDisk, fmt.Sprintf("%s free for %s", quantity.Bytes(free), x.state), "")
			if !f.OK {
				f.Advice = "Temporal's history, logs and models are kept there: name another folder with --state, or keep less with --cache-size."
			}
			return f
		}
		above := filepath.Dir(folder)
		if above == folder {
			break
		}
		folder = above
	}
	return symptom{}
}

// freeAt is what is free of the file system of a folder, in bytes.
func freeAt(folder string) (int64, bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(folder, &s) != nil {
		return 0, false
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), true
}

func openable(ctx context.Context, address string) symptom {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return seen("port", false, address+" is taken", fmt.Sprintf("%v. A harpagon up that runs already has it, or another program: take another with --http, --grpc or --ui; port 0 takes one that is free.", err))
	}
	_ = l.Close()
	return seen("port", true, address+" is free", "")
}

func describeSymptoms(to io.Writer, all []symptom) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "check\tstate\tfound")
	var advice []string
	for _, f := range all {
		state := "ok"
		if f.absent {
			state = "none"
		}
		if !f.OK {
			state = "look"
			advice = append(advice, f.Check+": "+f.Advice)
		}
		found, details, long := strings.Cut(f.Found, " (")
		if long {
			advice = append(advice, f.Check+": "+strings.TrimSuffix(details, ")"))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Check, state, found)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(f symptom) bool { return !f.OK }) {
		advice = append(advice, "No problems found.")
	}
	_, err := fmt.Fprintf(to, "\n%s\n", strings.Join(advice, "\n"))
	return err
}
