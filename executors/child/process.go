package child

import (
	"bufio"
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
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/wire"
)

// process is a child that has said hello. call is used by one goroutine at a
// time, and before any batch; everything else by any.
type process struct {
	*subprocess.Process
	engine, module string
	options        *Options
	word           hello

	requests *os.File
	in       reader
	shared   *shared // nil where there is none, or the child does not see it
	line     line

	loaded []loadReply  // what was said of each model
	open   atomic.Int32 // instances that have not been closed
}

// start starts a child and waits for its hello.
func start(ctx context.Context, engine, module, device string, o *Options) (*process, error) {
	p := &process{engine: engine, module: module, options: o}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	p.requests = ours
	files := []*os.File{theirs}
	if !o.Pipe {
		if s, file, err := newShared(o.MaxMessage); err == nil { // or tensors take the pipes
			p.shared = s
			files = append(files, file)
		}
	}
	p.Process, err = subprocess.Start(subprocess.Command{
		Role: role, Args: o.Command, Env: environment(os.Environ(), o.Env, device), Files: files,
		Output: o.Output, Prefix: fmt.Sprintf("[%s %s] ", engine, module), Grace: o.CloseTimeout,
	})
	if err != nil {
		p.free()
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, err)
	}
	p.in = reader{from: bufio.NewReaderSize(p.Answers, readSize), most: o.MaxMessage}
	if err := p.Greet(ctx, o.StartTimeout, p.greet); err != nil {
		p.free()
		return nil, fmt.Errorf("child: starting a process for engine %q: %w", engine, err)
	}
	return p, nil
}

func (p *process) greet(context.Context) error {
	k, body, err := p.in.read()
	switch {
	case err != nil:
		return err
	case k != kindHello:
		return fmt.Errorf("its first frame is of kind %d", k)
	}
	if err := json.Unmarshal(body, &p.word); err != nil {
		return err
	}
	if p.word.Protocol != protocol {
		return fmt.Errorf("it speaks version %d of the protocol, not %d", p.word.Protocol, protocol)
	}
	return nil
}

// environment is what a child has beside ours. Its C library is asked for huge pages, unless
// it was told something else already: an engine reads all its weights for every batch,
// and this makes up for what the way to another process costs. Where it is to
// run on a GPU, it sees that one only.
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

// readSize holds the frames of most batches, whose data lie elsewhere.
const readSize = 16 << 10

// load loads a model in the child.
func (p *process) load(ctx context.Context, m *executors.Model) error {
	body, err := json.Marshal(loadRequest{Engine: p.engine, Model: *m, MaxMessage: p.options.MaxMessage, Shared: p.shared.size()})
	if err != nil {
		return fmt.Errorf("child: module %q: %w", m.Module.Name, err)
	}
	k, body, err := p.call(ctx, p.options.LoadTimeout, append(startFrame(nil, kindLoad), body...))
	if err == nil && p.Cause() != nil {
		err = io.EOF
	}
	if err != nil {
		e := p.gone(ctx, err)
		e.Reason = fmt.Sprintf("loading module %q: %s", m.Module.Name, e.Reason)
		return e
	}
	switch k {
	case kindFailed:
		e := failure(body)
		if e.Code == wire.CodeInternal && e.Stage == "" {
			return errors.New(e.Reason)
		}
		return e
	case kindLoaded:
		var reply loadReply
		err := json.Unmarshal(body, &reply)
		p.loaded = append(p.loaded, reply)
		return err
	}
	return fmt.Errorf("child: a frame of kind %d in answer to a model", k)
}

func failure(body []byte) *wire.Error {
	e := new(wire.Error)
	if err := json.Unmarshal(body, e); err != nil {
		return wire.Errorf(wire.CodeInternal, "", "child: a damaged error: %v", err)
	}
	return e
}

// call sends a frame and reads the answer. An error means that the child is
// gone or must be taken for gone; what is wrong with the request itself is an
// answer of kindFailed.
func (p *process) call(ctx context.Context, within time.Duration, frame []byte) (k kind, body []byte, err error) {
	err = p.timed(ctx, within, func() error {
		if err := writeFrame(p.requests, frame, p.options.MaxMessage); err != nil {
			return err
		}
		k, body, err = p.in.read()
		return err
	})
	return k, body, err
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

// gone says why a call failed, after waiting for the end of the child.
func (p *process) gone(ctx context.Context, err error) *wire.Error {
	if errors.Is(err, errTooLarge) || !endOfLine(err) {
		p.Kill(err)
	}
	p.close()
	e := p.ended()
	if p.Cause() != nil && errors.Is(ctx.Err(), context.Canceled) {
		e.Code = wire.CodeCanceled
	}
	return e
}

// ended is the error of whatever is asked of a child that is gone.
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

// isBroken is true when the reading end of a pipe is gone.
func isBroken(err error) bool { return errors.Is(err, syscall.EPIPE) }
