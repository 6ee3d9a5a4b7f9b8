package child

import (
	"bufio"
	"context"
	"encoding/binary"
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
	parent, err := subprocess.Begin(nil)
	if err == nil {
		go func() {
			parent.Wait()
			os.Exit(0) // also while a batch runs
		}()
		err = serve(parent, engines)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is the child's side of the line.
type server struct {
	parent  *subprocess.Parent
	engines []executors.Engine
	in      reader
	out     io.Writer
	models  []executors.Instance
	frame   []byte
	places  []int
	parser  parser
	shared  *shared // nil where there is none
}

func serve(parent *subprocess.Parent, engines []executors.Engine) error {
	in, out := parent.File(requestFile), parent.Answers
	s := server{parent: parent, engines: engines, out: out, in: reader{from: bufio.NewReaderSize(in, readSize), most: defaultMaxMessage, reuse: true}}
	word := hello{Protocol: protocol}
	for _, e := range engines {
		word.Engines = append(word.Engines, engineInfo{e.Name(), e.Version()})
	}
	if err := writeJSON(out, kindHello, word, s.in.most); err != nil {
		return err
	}
	for {
		k, body, err := s.in.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch k {
		case kindLoad:
			err = s.load(body)
		case kindRun, kindNext:
			err = s.run(body, slices.Index(runKinds[:], k))
		default:
			err = fmt.Errorf("child: a frame of unknown kind %d", k)
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) load(body []byte) error {
	var request loadRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	s.in.most = request.MaxMessage
	at := slices.IndexFunc(s.engines, func(e executors.Engine) bool { return e.Name() == request.Engine })
	if at < 0 {
		return s.fail(wire.Errorf(wire.CodeInvalid, request.Model.Module.Name, "the child serves no engine %q; pass it to child.Serve", request.Engine))
	}
	instance, err := s.engines[at].Load(context.Background(), request.Model)
	if err != nil {
		return s.fail(err)
	}
	s.models = append(s.models, instance)
	if request.Shared > 0 && s.shared == nil {
		s.shared, _ = openShared(int(s.parent.File(memoryFile).Fd()), request.Shared) // without it, tensors take the pipes
	}
	if s.shared != nil {
		s.parser.shared = s.shared.all
	}
	return writeJSON(s.out, kindLoaded, loadReply{instance.Signature(), instance.Memory(), s.shared != nil}, s.in.most)
}

// run answers a batch that uses that part of the shared memory.
func (s *server) run(body []byte, part int) error {
	if len(body) < modelSize {
		return errDamaged
	}
	at := binary.LittleEndian.Uint32(body)
	if int64(at) >= int64(len(s.models)) {
		return fmt.Errorf("child: a batch for model %d of %d that were loaded", at, len(s.models))
	}
	items, err := s.parser.parse(body[modelSize:])
	if err != nil {
		return err
	}
	results, places, err := s.compute(s.models[at], items, part)
	if err != nil {
		return s.fail(err)
	}
	if n := itemsSize(results, nil); n > s.in.most {
		return s.fail(wire.Errorf(wire.CodeInternal, "", "a result of %d bytes is more than the %d that a message may have; use smaller batches or raise MaxMessage", n, s.in.most))
	}
	if err := checkItems(results); err != nil {
		return s.fail(err)
	}
	s.frame, err = writeItems(s.out, s.frame, kindResult, results, places, s.in.most)
	return err
}

// compute runs a batch, and puts its results into the shared memory as far as
// there is room and the engine has not written them there itself.
func (s *server) compute(model executors.Instance, items [][]wire.Tensor, part int) (results [][]wire.Tensor, places []int, err error) {
	if s.shared == nil {
		results, err = model.Run(context.Background(), items)
		return results, nil, err
	}
	to := s.shared.results(part)
	if in, ok := model.(executors.Placer); ok {
		results, err = in.RunPlaced(context.Background(), items, to.allocate)
	} else {
		results, err = model.Run(context.Background(), items)
	}
	if err == nil {
		s.places = to.place(s.places, results)
		places = s.places
	}
	return results, places, err
}

// fail answers with an error; the result reports whether the line still holds.
func (s *server) fail(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	return writeJSON(s.out, kindFailed, e, s.in.most)
}
