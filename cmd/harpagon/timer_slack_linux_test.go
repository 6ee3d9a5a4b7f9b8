package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inTest is set in a copy of this test that relaxes its own.
const inTest = "HARPAGON_TEST_LOOSEN"

func TestRelaxTimerSlackStaysTheSameProcess(t *testing.T) {
	if os.Getenv(inTest) != "" {
		relaxTimerSlack()
		now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		fmt.Println("process", os.Getpid(), "slack", now, err, os.Getenv(relaxed))
		os.Exit(0)
	}
	now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || now != int(usualSlack) {
		t.Skip("the slack of this process is not the usual one")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestRelaxTimerSlackStaysTheSameProcess$")
	c.Env = append(os.Environ(), inTest+"=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "process "+strconv.Itoa(c.Process.Pid)+" slack "+strconv.Itoa(int(slack))+" <nil> \n", string(out))
}
