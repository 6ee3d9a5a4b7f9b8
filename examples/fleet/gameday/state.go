package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

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

// beginState starts Temporal, and PostgreSQL before it where it is asked for.
func (f *fleet) beginState(ctx context.Context) error {
	if f.options.postgres {
		if err := f.beginPostgres(ctx); err != nil {
			return err
		}
	}
	if err := f.start(f.temporal()); err != nil {
		return err
	}
	if !f.says(ctx, "temporal", "Temporal", 1) {
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
	if !f.says(ctx, "postgres", "ready to accept", 1) {
		return errors.New("PostgreSQL does not run: " + f.log("postgres"))
	}
	return nil
}

// postgres is a program of PostgreSQL's, run by whom it belongs to.
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
