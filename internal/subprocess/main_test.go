package subprocess

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The roles of the test program, and what makes it a parent that is to be killed or a command of
// others.
const (
	obedient = "a test that obeys"
	deaf     = "a test that is deaf"
	rude     = "a test that panics"
	victim   = "SUBPROCESS_TEST_VICTIM"
	foreign  = "SUBPROCESS_TEST_FOREIGN"
)

// orders of a child, which it answers with.
type orders struct {
	Say  string
	Then string // what it does
}

func TestMain(m *testing.M) {
	Supervise()
	switch Requested() {
	case obedient:
		obey()
	case deaf:
		time.Sleep(time.Hour)
	case rude:
		panic("not today")
	}
	if len(os.Args) > 1 && os.Args[1] == foreign {
		beForeign(os.Args[2])
	}
	if how := os.Getenv(victim); how != "" {
		beVictim(how)
	}
	os.Exit(m.Run())
}

func obey() {
	var o orders
	parent, err := Begin(&o)
	if err != nil {
		panic(err)
	}
	said, _ := io.ReadAll(parent.File(0))
	fmt.Fprintf(parent.Answers, "%s %s %q\n", o.Say, said, os.Getenv(marker))
	switch o.Then {
	case "panic":
		panic("asked to")
	case "fail":
		fmt.Println("the last word")
		os.Exit(3)
	case "stay":
		select {}
	}
	parent.Wait()
	os.Exit(0)
}

// beForeign is a command with two children, of which one has left its group.
func beForeign(how string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for _, apart := range []bool{true, false} {
		c := exec.Command("sleep", "300")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println("pid", c.Process.Pid)
	}
	fmt.Println("pid", os.Getpid())
	fmt.Println("begun", os.Getenv(marker))
	for range end {
		if how == "tidy" {
			fmt.Println("tidied up")
			os.Exit(7)
		}
	}
}

// beVictim starts a child and waits to be killed.
func beVictim(how string) {
	c := Command{Role: obedient, Orders: orders{Then: "stay"}, Grace: time.Minute}
	if how == foreign {
		c = Command{Run: []string{os.Args[0], foreign, "tidy"}, Grace: time.Minute}
	}
	c.Output = os.Stdout
	p, err := Start(c)
	if err != nil {
		panic(err)
	}
	if how != foreign {
		_, _ = p.Answers.Read(make([]byte, 1))
		fmt.Println("pid", p.PID())
		fmt.Println("begun")
	}
	select {}
}

// numbers that follow "pid".
func numbers(text string) (all []int) {
	for line := range strings.Lines(text) {
		var pid int
		if n, _ := fmt.Sscanf(line, "pid %d", &pid); n == 1 {
			all = append(all, pid)
		}
	}
	return all
}
