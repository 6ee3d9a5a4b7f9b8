package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/wire"
)

// process is a child that has sent hello. load is used by one goroutine at a time, and before
// any batch; everything else by any.
type process struct {
	*subprocess.Process
	engine, module string
	options        *Options
	word           hello

	requests *os.File
	conn     *conn
	shared   *shared
	line     line

	loaded []loadReply  // the reply for each model
	open   atomic.Int32 // instances that have not been closed
}

// start starts a child and waits for its hello.
func start(ctx context.Context, engine, module, device string, o *Options) (*process, error) {
	p := &process{engine: engine, module: module, options: o}
	memory, err := osutil.MemoryFile(memorySize(o.MaxMessage))
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	if p.shared, err = openShared(memory, o.MaxMessage); err != nil {
		_ = memory.Close()
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		_ = memory.Close()
		p.shared.close()
		return nil, fmt.Errorf("child: %w", err)
	}
	p.requests = ours
	p.Process, err = subprocess.Start(subprocess.Command{
		Role: role, Args: o.Command, Orders: orders{o.MaxMessage}, Env: environment(os.Environ(), o.Env, device), Files: []*os.File{theirs, memory},
		Output: o.Output, Prefix: fmt.Sprintf("[%s %s] ", engine, module), Grace: o.CloseTimeout,
	})
	if err != nil {
		p.free()
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, err)
	}
	p.conn = newConn(p.Answers, p.requests)
	if err := p.Greet(ctx, o.StartTimeout, p.greet); err != nil {
		p.free()
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, err)
	}
	return p, nil
}

func (p *process) greet(context.Context) error {
	m, err := p.conn.receive()
	if err == nil && m.kind != kindHello {
		err = fmt.Errorf("its first message is of kind %d", m.kind)
	}
	if err == nil {
		err = json.Unmarshal(m.body, &p.word)
	}
	if err != nil {
		return err
	}
	if p.word.Protocol != protocol {
		return fmt.Errorf("it speaks version %d of the protocol, not %d", p.word.Protocol, protocol)
	}
	return nil
}

// environment is what a child has beside ours. Its C library is set to use huge pages, unless
// the setting is there already: an engine reads all its weights for every batch, and this makes
// up for the cost of a process of its own. Where it is to run on a GPU, it sees that one only.
func environment(ours, own []string, device string) []string {
	const tunables, hugePages = "GLIBC_TUNABLES=", "glibc.malloc.hugetlb=1"
	env := []string{"GOMAXPROCS=1"}
	if !slices.ContainsFunc(ours, func(v string) bool { return strings.HasPrefix(v, tunables) }) {
		env = append(env, tunables+hugePages)
	}
	if gpu := devices.Visible(device); gpu != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+gpu)
	}
	return append(env, own...)
}

// load loads a model in the child. An error of kindFailed leaves it alone.
func (p *process) load(ctx context.Context, m *executors.Model) error {
	var answer message
	err := p.timed(ctx, p.options.LoadTimeout, func() (err error) {
		if err = p.conn.sendJSON(kindLoad, loadRequest{Engine: p.engine, Model: *m}); err == nil {
			answer, err = p.conn.receive()
		}
		return err
	})
	if err == nil && p.Cause() != nil {
		err = io.EOF
	}
	if err != nil {
		e := p.gone(ctx, err)
		e.Reason = fmt.Sprintf("loading module %q: %s", m.Module.Name, e.Reason)
		return e
	}
	switch answer.kind {
	case kindFailed:
		e := answer.failure()
		if e.Code == wire.CodeInternal && e.Stage == "" {
			return errors.New(e.Reason)
		}
		return e
	case kindLoaded:
		var reply loadReply
		err := json.Unmarshal(answer.body, &reply)
		p.loaded = append(p.loaded, reply)
		return err
	}
	return fmt.Errorf("child: a message of kind %d in answer to a model", answer.kind)
}

// timed kills the child should what is done with it take too long, or its caller
// stop waiting.
func (p *process) timed(ctx context.Context, within time.Duration, do func() error) error {
	late := func() { p.Kill(fmt.Errorf("it did not answer within %v and was killed", within)) }
	abandoned := func() {
		p.Kill(fmt.Errorf("it was killed because its caller stopped waiting: %w", context.Cause(ctx)))
	}
	timer := time.AfterFunc(within, late)
	stop := context.AfterFunc(ctx, abandoned)
	err := do()
	// What could not be stopped kills the child, even after its answer.
	if !timer.Stop() {
		late()
	}
	if !stop() {
		abandoned()
	}
	return err
}

// gone reports why a call failed, after waiting for the end of the child.
func (p *process) gone(ctx context.Context, err error) *wire.Error {
	if !endOfLine(err) {
		p.Kill(err)
	}
	p.close()
	e := p.ended()
	if p.Cause() != nil && errors.Is(ctx.Err(), context.Canceled) {
		e.Code = wire.CodeCanceled
	}
	return e
}

// ended is the error of every call to a child that is gone.
func (p *process) ended() *wire.Error { return p.unavailable(p.End()) }

func (p *process) unavailable(why string) *wire.Error {
	return wire.Errorf(wire.CodeUnavailable, p.module, "engine %q in a child process: %s", p.engine, why)
}

// close ends the child and frees everything; it may be called more than once.
func (p *process) close() {
	p.Stop()
	p.free()
}

func (p *process) free() {
	_ = p.requests.Close()
	p.shared.close()
}

// version of an engine that the child serves; ok is false when there is none.
func (p *process) version(engine string) (version string, ok bool) {
	at := slices.IndexFunc(p.word.Engines, func(e engineInfo) bool { return e.Name == engine })
	if at < 0 {
		return "", false
	}
	return p.word.Engines[at].Version, true
}

// endOfLine is true for the errors that the end of the other side causes.
func endOfLine(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE)
}
