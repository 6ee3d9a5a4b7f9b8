package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/internal/testkit"
)

// fault is one thing that can be done to a fleet.
type fault struct {
	kind, part string
	happens    func(ctx context.Context, r *rand.Rand) error // returns when its cause is gone
}

func (f fault) name() string { return f.kind + " " + f.part }

// group is faults of one kind to one role, which count together.
func (f fault) group() string {
	return f.kind + " " + strings.TrimSuffix(strings.TrimSuffix(f.part, "-1"), "-2")
}

// faults are all that can be done here.
func (f *fleet) faults() ([]fault, error) {
	only, err := regexp.Compile(f.options.only)
	if err != nil {
		return nil, err
	}
	var all []fault
	add := func(kind, part string, happens func(context.Context, *rand.Rand) error) {
		if one := (fault{kind, part, happens}); only.MatchString(one.name()) {
			all = append(all, one)
		}
	}
	for _, m := range append(f.members(), f.temporal()) {
		add("kill -9", m.name, func(ctx context.Context, _ *rand.Rand) error {
			if err := f.refuse(ctx); err != nil {
				return err
			}
			return f.killed(ctx, m.name)
		})
		add("SIGSTOP", m.name, func(ctx context.Context, r *rand.Rand) error {
			f.signal(m.name, syscall.SIGSTOP)
			wait(ctx, some(r, 2*time.Second, 8*time.Second))
			f.signal(m.name, syscall.SIGCONT)
			return nil
		})
	}
	for name := range f.lines() {
		add("cut", name, func(context.Context, *rand.Rand) error { f.relays[name].cut(); return nil })
		add("refused", name, func(ctx context.Context, r *rand.Rand) error {
			f.relays[name].refuse(true)
			wait(ctx, some(r, time.Second, 4*time.Second))
			f.relays[name].refuse(false)
			return nil
		})
		add("stands still", name, func(_ context.Context, r *rand.Rand) error {
			f.relays[name].stand(some(r, time.Second, 5*time.Second))
			return nil
		})
	}
	add("away", "temporal", f.away)
	n := 0
	add("change", "plan", func(ctx context.Context, _ *rand.Rand) error { n++; return f.change(ctx, n) })
	f.personFaults(add)
	f.diskFaults(add)
	slices.SortFunc(all, func(a, b fault) int { return cmp.Compare(a.name(), b.name()) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no fault's name matches %q; -list prints them", f.options.only)
	}
	return all, nil
}

func some(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// killed kills a process and starts it again.
func (f *fleet) killed(ctx context.Context, name string) error {
	f.signal(name, syscall.SIGKILL)
	wait(ctx, 2*time.Second)
	f.restart(name)
	return nil
}

// away takes all of Temporal away.
func (f *fleet) away(ctx context.Context, _ *rand.Rand) error {
	f.endState()
	wait(ctx, f.options.away)
	return f.beginState(ctx)
}

// diskFaults are those of disks, whose processes have their state there.
func (f *fleet) diskFaults(add func(string, string, func(context.Context, *rand.Rand) error)) {
	if os.Geteuid() != 0 {
		return
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		// What only reads when it starts is started again meanwhile.
		add("disk full,", name, func(ctx context.Context, _ *rand.Rand) error {
			d := f.disks[name]
			if err := d.Fill(); err != nil {
				return err
			}
			defer d.Free()
			if err := f.killed(ctx, name); err != nil || !f.says(ctx, name, "is ready on") {
				return fmt.Errorf("%s does not start on a full disk: %v %s", name, err, f.log(name))
			}
			return nil
		})
		add("disk to be read only,", name, func(ctx context.Context, _ *rand.Rand) error {
			d := f.disks[name]
			f.signal(name, syscall.SIGKILL)
			if err := d.May(false); err != nil {
				return err
			}
			f.restart(name)
			started := f.says(ctx, name, "is ready on")
			if err := d.May(true); err != nil || !started {
				return fmt.Errorf("%s does not start on a disk that can be read only: %v %s", name, err, f.log(name))
			}
			return nil
		})
		add("damaged profiles and cache,", name, func(ctx context.Context, r *rand.Rand) error {
			f.signal(name, syscall.SIGKILL)
			if err := f.disks[name].damage(r); err != nil {
				return err
			}
			f.restart(name)
			if !f.says(ctx, name, "is ready on") {
				return fmt.Errorf("%s does not start with damaged files: %s", name, f.log(name))
			}
			return nil
		})
	}
	add("disk full,", f.state(), func(ctx context.Context, r *rand.Rand) error {
		d := f.disks[f.state()]
		if err := d.Fill(); err != nil {
			return err
		}
		said := f.saysWhy(ctx)
		if err := d.Free(); err != nil {
			return err
		}
		return errors.Join(said, f.revived(ctx))
	})
	add("damaged,", f.state(), func(ctx context.Context, r *rand.Rand) error {
		d, kept := f.disks[f.state()], filepath.Join(f.work, "kept")
		f.endState()
		if err := d.copyTo(kept); err != nil {
			return err
		}
		if err := d.damage(r); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 8*time.Second)
		err := f.beginState(short)
		cancel()
		fmt.Printf("    on damaged files: %s\n", last(f.log(f.state()), err))
		f.endState()
		if err := d.copyFrom(kept); err != nil {
			return err
		}
		return f.beginState(ctx)
	})
}

// revived starts again what a full disk has ended.
func (f *fleet) revived(ctx context.Context) error {
	probe, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for !f.known(probe, executors/2) {
		if !wait(probe, time.Second) {
			fmt.Println("    its disk was full, and it is started again")
			f.endState()
			return f.beginState(ctx)
		}
	}
	return nil
}

// last is the last line of a log, or that all is well.
func last(log string, err error) string {
	if err == nil {
		return "it runs"
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := lines[len(lines)-1]
	return line[:min(len(line), 200)]
}

// happened is a fault that was done.
type happened struct {
	fault
	at, over, whole time.Time // over: its cause is gone; whole: so is what it did
	failure         error
}

// happen does one fault after the other, in an order of chance in which each comes once
// before any comes again, until the time is over.
func (f *fleet) happen(ctx context.Context, all []fault) (done []happened) {
	until := time.Now().Add(f.options.lasts)
	r := rand.New(rand.NewPCG(f.options.seed, 0))
	var order []fault
	for time.Now().Before(until) && ctx.Err() == nil {
		if len(order) == 0 {
			order = slices.Clone(all)
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		done = append(done, f.one(ctx, order[0], r))
		order = order[1:]
	}
	return done
}

// one does a fault, and waits until the fleet is whole again and calm.
func (f *fleet) one(ctx context.Context, of fault, r *rand.Rand) happened {
	one := happened{fault: of, at: time.Now()}
	fmt.Printf("%s %s\n", one.at.Format(time.TimeOnly), one.name())
	one.failure = one.happens(ctx, r)
	one.over = time.Now()
	if !f.whole(ctx) && one.failure == nil && ctx.Err() == nil {
		one.failure = fmt.Errorf("the fleet is not whole again after %v", time.Since(one.over).Round(time.Second))
	}
	one.whole = time.Now()
	if one.failure != nil {
		fmt.Println("   ", one.failure)
	}
	wait(ctx, f.options.calm)
	return one
}

// action is done to the workflow of an ID.
type action func(ctx context.Context, c client.Client, id string, r *rand.Rand) error

// personFaults are what a person can do in Temporal's UI, to workflows of every type. A
// service's is not cancelled, which ends it.
func (f *fleet) personFaults(add func(string, string, func(context.Context, *rand.Rand) error)) {
	for _, kind := range []string{"executor", "host", "member", "fleet", "service"} {
		for what, do := range map[string]action{
			"cancel": func(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
				return c.CancelWorkflow(ctx, id, "")
			},
			"terminate": func(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
				return c.TerminateWorkflow(ctx, id, "", "game day")
			},
			"reset": reset, "pause activity of": pause,
		} {
			alone := kind == "fleet" || kind == "service" // without an activity that goes on
			if what == "cancel" && kind == "service" || what == "pause activity of" && alone {
				continue
			}
			add(what, kind+"'s workflow", func(ctx context.Context, r *rand.Rand) error { return f.person(ctx, kind, r, do) })
		}
	}
}

// person does something to a workflow of a type.
func (f *fleet) person(ctx context.Context, kind string, r *rand.Rand, do action) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: f.address(relayed + temporal)})
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running' AND WorkflowType = '" + kind + "'"})
	if err != nil {
		return err
	}
	if len(all.Executions) == 0 {
		return fmt.Errorf("no workflow of type %s runs", kind)
	}
	id := all.Executions[r.IntN(len(all.Executions))].Execution.WorkflowId
	fmt.Println("   ", id)
	err = do(ctx, c, id, r)
	wait(ctx, 4*time.Second) // until it has been noticed
	return err
}

// reset has a workflow go back to one of its decisions.
func reset(ctx context.Context, c client.Client, id string, r *rand.Rand) error {
	var decisions []int64
	events := c.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			decisions = append(decisions, e.EventId)
		}
	}
	_, err := c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		Reason: "game day", RequestId: time.Now().String(), WorkflowTaskFinishEventId: decisions[r.IntN(len(decisions))],
	})
	return err
}

// pause has the activity stand that a workflow holds.
func pause(ctx context.Context, c client.Client, id string, _ *rand.Rand) error {
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return err
	}
	for _, a := range d.PendingActivities {
		_, err := c.WorkflowService().PauseActivity(ctx, &workflowservice.PauseActivityRequest{
			Namespace: client.DefaultNamespace, Execution: d.WorkflowExecutionInfo.Execution,
			Activity: &workflowservice.PauseActivityRequest_Id{Id: a.ActivityId}, Reason: "game day",
		})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
	}
	return nil
}

// disk is a small file system in memory, so that it can be full without harm to others.
type disk struct{ *testkit.Disk }

// mount makes one of mib MiB, owned by user ID owner.
func mount(folder string, mib, owner int) (disk, error) {
	d, err := testkit.MountDisk(folder, fmt.Sprintf("size=%dm,mode=0700,uid=%d", mib, owner))
	return disk{d}, err
}

// damage writes over pieces of every file.
func (d disk) damage(r *rand.Rand) error {
	return filepath.WalkDir(d.Folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		noise := make([]byte, 4096)
		for at := int64(0); at < info.Size(); at += 1 + r.Int64N(256<<10) {
			for i := range noise {
				noise[i] = byte(r.Uint32())
			}
			if _, err := f.WriteAt(noise[:min(int64(len(noise)), info.Size()-at)], at); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyTo keeps what is on the disk, with owners.
func (d disk) copyTo(folder string) error { return same(d.Folder, folder) }

// copyFrom makes the disk what it was.
func (d disk) copyFrom(folder string) error {
	all, err := os.ReadDir(d.Folder)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := os.RemoveAll(filepath.Join(d.Folder, e.Name())); err != nil {
			return err
		}
	}
	return same(folder, d.Folder)
}

func same(from, to string) error {
	out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// refusedRate cannot be planned for with what there is, in requests per second.
const refusedRate = 1_000_000

// refuse applies what cannot be carried out, so that the next fault meets a fleet with a
// refused change: that must leave no trace.
func (f *fleet) refuse(ctx context.Context) error {
	out, err := f.apply(ctx, refusedRate)
	if err == nil || !strings.Contains(string(out), "goes on serving") {
		return fmt.Errorf("apply of %d requests per second was not refused: %v: %s", refusedRate, err, out)
	}
	return nil
}

// saysWhy checks a fleet whose Temporal cannot write: status answers, or its error gives a
// likely reason.
func (f *fleet) saysWhy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	out, err := f.command(ctx, "status").CombinedOutput()
	if err == nil || strings.Contains(string(out), "cannot write its state") || strings.Contains(string(out), "no Temporal server answers") {
		return nil
	}
	return fmt.Errorf("status on a full disk: %w: %s", err, out)
}
