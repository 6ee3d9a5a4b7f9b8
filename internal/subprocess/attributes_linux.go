package subprocess

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributes of a child: it leads a session of its own. Where Linux shares processors among
// sessions first (autogroups), an engine with one thread would get a fraction of a core beside all
// those of a gateway on a machine that is busy. Where it dies with its parent the kernel kills it when
// the thread ends that started it.
func attributes(dies bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if dies {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// adopt makes the supervisor the parent of those that their own parents have left,
// so that they can be found.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killAdopted ends what has left the command's group. Children of those that it
// kills become the supervisor's in their turn, hence the rounds.
func killAdopted() {
	const rounds = 20
	for range rounds {
		found := children()
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// children of this process, whichever of its threads started them.
func children() (all []int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", t.Name()))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
