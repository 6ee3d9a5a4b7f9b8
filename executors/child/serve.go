package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/internal/subprocess"
	"github.com/harpagon/harpagon/wire"
)

// role is what a child is to be.
const role = "the process of an engine"

// The files that a child inherits.
const (
	requestFile = 0 // frames from the parent; those to it are answers
	memoryFile  = 1 // shared memory, where there is any
)

// Requested is true in a process that was started to serve an engine.
func Requested() bool { return subprocess.Requested() == role }

// Serve answers the parent with one of the engines and ends the process when
// the parent closes or is gone. It does not return. Panics of the engine are
// left alone: they end the process, and the parent reports them.
func Serve(engines ...executors.Engine) {
	if err := serve(engines); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is the child's side of the line.
type server struct {
	engines []executors.Engine
	conn    *conn
	models  []executors.Instance
	shared  *shared
}

func serve(engines []executors.Engine) error {
	var o orders
	parent, err := subprocess.Begin(&o)
	if err != nil {
		return err
	}
	go func() {
		parent.Wait()
		os.Exit(0) // also while a batch runs
	}()
	s := server{engines: engines, conn: newConn(parent.File(requestFile), parent.Answers)}
	if s.shared, err = openShared(parent.File(memoryFile), o.MaxMessage); err != nil {
		return err
	}
	word := hello{Protocol: protocol}
	for _, e := range engines {
		word.Engines = append(word.Engines, engineInfo{e.Name(), e.Version()})
	}
	if err := s.conn.sendJSON(kindHello, word); err != nil {
		return err
	}
	for {
		m, err := s.conn.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch m.kind {
		case kindLoad:
			err = s.load(&m)
		case kindRun:
			err = s.run(&m)
		default:
			err = fmt.Errorf("child: a message of unknown kind %d", m.kind)
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) load(m *message) error {
	var request loadRequest
	if err := json.Unmarshal(m.body, &request); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	at := slices.IndexFunc(s.engines, func(e executors.Engine) bool { return e.Name() == request.Engine })
	if at < 0 {
		return s.fail(wire.Errorf(wire.CodeInvalid, request.Model.Module.Name, "the child serves no engine %q; pass it to child.Serve", request.Engine))
	}
	instance, err := s.engines[at].Load(context.Background(), request.Model)
	if err != nil {
		return s.fail(err)
	}
	s.models = append(s.models, instance)
	return s.conn.sendJSON(kindLoaded, loadReply{instance.Signature(), instance.Memory()})
}

// run answers a batch.
func (s *server) run(m *message) error {
	var h heads
	if err := h.parse(m.body); err != nil {
		return err
	}
	items, err := s.shared.take(h.items, h.columns, false)
	if err != nil {
		return err
	}
	to := s.shared.results(h.part)
	var results [][]wire.Tensor
	if in, ok := s.models[h.model].(executors.Placer); ok {
		results, err = in.RunPlaced(context.Background(), items, to.allocate)
	} else {
		results, err = s.models[h.model].Run(context.Background(), items)
	}
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("the engine answered %d of %d requests", len(results), len(items))
	}
	if err == nil {
		h.columns, err = to.put(results)
	}
	if err != nil {
		return s.fail(err)
	}
	s.conn.begin(kindResult)
	s.conn.sending = h.append(s.conn.sending)
	return s.conn.send()
}

// fail answers with an error; the result reports whether the line still holds.
func (s *server) fail(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	return s.conn.sendJSON(kindFailed, e)
}
