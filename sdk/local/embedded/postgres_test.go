//go:build !noserver

package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/sdk/local/embedded"
)

const password = "postgres-4f1c88d2"

// A password that cannot be used because of what stands beside it is not repeated.
func TestThePasswordOfPostgresIsNotInErrors(t *testing.T) {
	for _, at := range []string{
		"postgres://harpagon:" + password + "@127.0.0.1:1/temporal?sslmode=bogus",
		"postgres://harpagon:" + password + "@127.0.0.1:99999/temporal",
		"postgres://harpagon:" + password + "@127.0.0.1:port/temporal",
		"postgres://harpagon:" + password + "@[::1/temporal",
		"postgres://harpagon:" + password + "@127.0.0.1:1",
		"postgres://harpagon@127.0.0.1:1/temporal?sslmode=bogus&password=" + password,
		"postgres://harpagon@127.0.0.1:1/temporal?sslkey=/no/such&sslcert=/no/such&sslmode=require&sslpassword=" + password,
		"host=127.0.0.1 user=harpagon password=" + password,
	} {
		_, err := embedded.Start(t.Context(), embedded.Options{WithoutUI: true, Postgres: embedded.Postgres{URL: at}})
		require.Error(t, err, at)
		assert.NotContains(t, err.Error(), password)
	}
}

// TestThePasswordOfPostgresIsNotRevealed runs a workflow on a PostgreSQL that requires a
// password, takes the database away meanwhile, and looks for the password in the log, in
// errors and in all that the database has on its disk, histories among it.
func TestThePasswordOfPostgresIsNotRevealed(t *testing.T) {
	database := newPostgres(t)
	places := map[string]string{}
	o := embedded.Options{
		WithoutUI: true, LogFile: filepath.Join(t.TempDir(), "temporal.log"), FrontendAddr: "127.0.0.1:" + strconv.Itoa(freeBlock(t)),
		Postgres: embedded.Postgres{URL: "postgres://harpagon:wrong-" + password + "@" + database.address + "/temporal", Shards: 1},
	}
	_, err := embedded.Start(t.Context(), o)
	require.ErrorContains(t, err, "password authentication failed")
	places["the error"] = err.Error()

	o.Postgres.URL = "postgres://harpagon:" + password + "@" + database.address + "/temporal"
	s, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	within(t, s, func(ctx context.Context, c client.Client) {
		defer work(t, c)()
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: embedded.Namespace, SearchAttributes: map[string]enumspb.IndexedValueType{"TestPhase": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "one", TaskQueue: "q"}, doubling, 21)
			return err == nil && run.Get(ctx, nil) == nil
		}, time.Minute, 100*time.Millisecond)
		database.end()
		_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "two", TaskQueue: "q"}, doubling, 21)
		places["the error without a database"] = fmt.Sprint(err)
	})
	require.NoError(t, s.Stop())
	log, err := os.ReadFile(o.LogFile)
	require.NoError(t, err)
	assert.NotEmpty(t, log, "the lost database is logged")
	places["the log"] = string(log)
	all := 0
	require.NoError(t, filepath.WalkDir(database.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("doubling")) {
			all++
		}
		places[path] = string(text)
		return err
	}))
	assert.Positive(t, all, "the database has the histories")
	for place, text := range places {
		assert.False(t, strings.Contains(text, password), place)
	}
}

type database struct {
	address, folder string
	end             func()
}

// newPostgres starts the PostgreSQL of this machine, which requires a password of user
// harpagon.
func newPostgres(t *testing.T) database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if at, err := exec.LookPath("initdb"); err == nil {
		found = append(found, at)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	bin, dir := filepath.Dir(found[len(found)-1]), t.TempDir()
	by := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL does not run as root; its package has made a user
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("there is no user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		by.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
		require.NoError(t, os.Chown(dir, uid, gid))
	}
	file, folder := filepath.Join(t.TempDir(), "password"), filepath.Join(dir, "data")
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o644))
	setup := exec.Command(filepath.Join(bin, "initdb"), "-D", folder, "-U", "harpagon", "--auth=scram-sha-256", "--pwfile="+file, "--no-sync")
	setup.SysProcAttr, setup.Dir = by, dir
	out, err := setup.CombinedOutput()
	require.NoError(t, err, string(out))
	port := strconv.Itoa(freeBlock(t)) // which is none that the kernel chooses for others
	address := net.JoinHostPort("127.0.0.1", port)
	run := exec.Command(filepath.Join(bin, "postgres"), "-D", folder, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-p", port)
	run.SysProcAttr, run.Dir = by, dir
	require.NoError(t, run.Start())
	ended := false
	d := database{address: address, folder: folder, end: func() {
		if !ended {
			ended = true
			_ = run.Process.Signal(syscall.SIGQUIT)
			_ = run.Wait()
		}
	}}
	t.Cleanup(d.end)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return d
}

// freeBlock is a port that is free, with the seven after it, and that PostgreSQL can hold.
func freeBlock(t *testing.T) int {
	t.Helper()
	for first := 21000 + os.Getpid()%1000; first < 32000; first += 8 {
		var all []net.Listener
		for n := range 8 {
			if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+n)); err == nil {
				all = append(all, l)
			}
		}
		for _, l := range all {
			l.Close()
		}
		if len(all) == 8 {
			return first
		}
	}
	t.Fatal("no eight ports in a row are free")
	return 0
}

// Temporal would end the whole process, with the reason in its log alone.
func TestPortsThatPostgresCannotHold(t *testing.T) {
	_, err := embedded.Start(t.Context(), embedded.Options{
		WithoutUI: true, FrontendAddr: "127.0.0.1:32761", Postgres: embedded.Postgres{URL: "postgres://harpagon@127.0.0.1:1/temporal"},
	})
	assert.ErrorContains(t, err, "at most 32760")
}
