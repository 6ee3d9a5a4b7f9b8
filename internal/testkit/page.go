package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Step is one block of a page of docs that can be run.
type Step struct {
	Line   int    // of its fence
	File   string // to be written, from the folder in which the page is; empty for commands
	Text   string // commands of bash, or what the file has
	Shown  string // what the commands print, by the page
	Varies bool   // the numbers of Shown are those of one run
}

var (
	names = regexp.MustCompile("`([^`\\s]+)`[^`]*:$")
	skips = regexp.MustCompile(`(?m)^[ \t]*\.\.\.$`)
	// What varies from run to run: a number with its sign, exponent and unit, and user@host.
	masked = regexp.MustCompile(`[\w.-]+@[\w.-]+|-?\b\d[\d.,:-]*(e[+-]\d+)?( ?(µs|ms|s|min)\b)?`)
)

// Steps are the blocks of a page that are run, from top to bottom: those of sh; those of text
// right below, which are what the commands print, with other numbers where the fence says "text
// varies", and with a line "..." for lines that are left out; and any other below a
// paragraph that ends with a file name, as in "`serve.py`:".
func Steps(page string) (all []Step) {
	lines, above := strings.Split(page, "\n"), ""
	for i := 0; i < len(lines); i++ {
		info, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			if strings.TrimSpace(lines[i]) != "" {
				above = lines[i]
			}
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		s := Step{Line: begin, Text: strings.Join(lines[begin:min(i, len(lines))], "\n") + "\n"}
		name := names.FindStringSubmatch(above)
		switch kind, option, _ := strings.Cut(info, " "); {
		case kind == "sh":
			all = append(all, s)
		case kind == "text" && above == "```sh":
			last := &all[len(all)-1]
			last.Shown, last.Varies = s.Text, option == "varies"
		case name != nil:
			s.File = name[1]
			all = append(all, s)
		}
		above = lines[begin-1]
	}
	return all
}

// Prints compares what commands have printed with what the page shows: the same words in the
// same order, however they are broken into lines.
func (s Step) Prints(output string) error {
	words := func(text string) string {
		if s.Varies {
			text = masked.ReplaceAllString(text, "#")
		}
		return strings.Join(strings.Fields(text), " ")
	}
	rest := words(output)
	for _, part := range skips.Split(s.Shown, -1) {
		if part = words(part); part == "" {
			continue
		}
		_, after, found := strings.Cut(rest, part)
		if !found {
			return fmt.Errorf("line %d: the page shows\n%s\nand this is not in what follows of\n%s", s.Line, part, output)
		}
		rest = after
	}
	return nil
}

// Reader carries out the steps of a page, in a folder, with programs of Bin before others.
type Reader struct {
	testing.TB
	Folder string
	Bin    string
	Env    []string

	running []*reading
}

type reading struct {
	step   Step
	output string // a file
	ended  chan error
}

// Until is how long a command may take on a machine that others use, too.
const until = 5 * time.Minute

var (
	serves = regexp.MustCompile(`(?m)^harpagon up `)
	asks   = regexp.MustCompile(`^(harpagon (infer|status|explain|history|feed) |go run )`)
)

// Read does the steps. harpagon up is left running as soon as it has printed what the page
// shows, and the page has to stop it. A command that only queries is repeated where it has
// missed its deadline on a busy machine.
func (r *Reader) Read(steps []Step) {
	for _, s := range steps {
		if s.File != "" {
			require.NoError(r, os.WriteFile(filepath.Join(r.Folder, s.File), []byte(s.Text), 0o600))
			continue
		}
		for deadline := time.Now().Add(until); ; time.Sleep(time.Second) {
			err := r.do(s)
			if err == nil {
				break
			}
			require.True(r, asks.MatchString(s.Text) && time.Now().Before(deadline), "line %d: %s%v", s.Line, s.Text, err)
		}
	}
	for _, one := range r.running {
		select {
		case <-one.ended:
		case <-time.After(until):
			require.Fail(r, "it runs on at the end of the page", one.step.Text)
		}
	}
}

// do runs the commands of a step, until their end or until they have printed what is shown.
func (r *Reader) do(s Step) error {
	out, err := os.CreateTemp(r.TempDir(), "output")
	require.NoError(r, err)
	defer out.Close()
	at := filepath.Join(r.TempDir(), "folder")
	run := exec.Command("bash", "-e", "-o", "pipefail", "-c", s.Text+"pwd > "+at)
	run.Dir, run.Stdout, run.Stderr = r.Folder, out, out
	run.Env = append(append(os.Environ(), "PATH="+r.Bin+":"+os.Getenv("PATH")), r.Env...)
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(r, run.Start())
	one := &reading{s, out.Name(), make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		one.ended <- run.Wait()
		close(over)
	}()
	r.Cleanup(func() {
		select {
		case <-over:
		default:
			_ = syscall.Kill(-run.Process.Pid, syscall.SIGTERM)
			select {
			case <-over:
			case <-time.After(until):
				_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
				<-over
			}
		}
	})
	for deadline := time.Now().Add(until); ; {
		select {
		case err := <-one.ended:
			text, readErr := os.ReadFile(out.Name())
			require.NoError(r, readErr)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			if folder, _ := os.ReadFile(at); len(folder) > 0 {
				r.Folder = strings.TrimSpace(string(folder))
			}
			return s.Prints(string(text))
		case <-time.After(100 * time.Millisecond):
		}
		if text, err := os.ReadFile(out.Name()); serves.MatchString(s.Text) && err == nil && s.Prints(string(text)) == nil {
			r.running = append(r.running, one)
			return nil
		} else if time.Now().After(deadline) {
			return fmt.Errorf("has not ended: %s", text)
		}
	}
}
