package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
)

// socketAhead is how many requests of a WebSocket may be under way or not read by their client; no
// more than one is read meanwhile, so that it waits, too.
const socketAhead = 16

// socketMemory is what a WebSocket takes beside what its messages do: its buffers and two stacks.
const socketMemory = 32 << 10

// serving is the key of the context of Serve in those of its requests.
type serving struct{}

// socket answers the requests that come as the messages of a WebSocket, in their order.
type socket struct {
	of    *server
	conn  *websocket.Conn
	model string
	frame wire.Frame // what requests are that do not say
}

// stream serves a WebSocket; see the package's comment for its messages.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if _, err := s.model(r); err != nil {
		oip.WriteError(w, err)
		return
	}
	frame := wire.Frame{Stream: r.URL.Query().Get("stream"), Kind: r.URL.Query().Get("kind")}
	if err := frame.Check(); err != nil {
		oip.WriteError(w, err)
		return
	}
	held := s.options.Bytes.Begin(modelName(r))
	defer held.Release()
	if err := held.Grow(socketMemory); err != nil {
		oip.WriteError(w, err)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	conn.SetReadLimit(s.options.MaxBody)
	(&socket{s, conn, modelName(r), frame}).serve(r)
}

// serve answers messages until the client closes, does not read or send for long, or the server stops.
func (k *socket) serve(r *http.Request) {
	ctx, cancel := context.WithCancel(oip.Traced(r))
	defer cancel()
	answers, under := make(chan chan socketAnswer, socketAhead), make(chan struct{}, socketAhead)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer cancel()
		for next := range answers {
			a := <-next
			if ctx.Err() == nil && k.write(ctx, &a) != nil {
				cancel() // nobody reads any more
			}
			a.held.Release()
			<-under
		}
	})
	if of, ok := r.Context().Value(serving{}).(context.Context); ok {
		defer context.AfterFunc(of, func() {
			for range socketAhead { // until all are answered
				under <- struct{}{}
			}
			_ = k.conn.Close(websocket.StatusGoingAway, "this gateway is stopping; go on at another")
			for range socketAhead {
				<-under
			}
		})()
	}
	var before chan struct{}
	for {
		held := k.of.options.Bytes.Begin(k.model)
		call, err := k.read(ctx, &held)
		var e *wire.Error
		if err != nil && !errors.As(err, &e) {
			held.Release()
			break
		}
		under <- struct{}{}
		done, begun := make(chan socketAnswer, 1), make(chan struct{})
		answers <- done
		go func(before chan struct{}) {
			if before != nil { // goroutines begin in any order
				<-before
			}
			inLine := sync.OnceFunc(func() { close(begun) })
			defer inLine()
			if e != nil {
				done <- socketAnswer{call: call, err: e, held: &held}
				return
			}
			if call.Request.InLine = inLine; call.Request.Frame.Stream == "" {
				inLine() // no order is kept
			}
			ctx, cancel := deadlined(ctx, call.Timeout)
			defer cancel()
			a, err := k.of.backend.Infer(ctx, &call.Request)
			done <- socketAnswer{call, a, err, &held}
		}(before)
		before = begun
	}
	close(answers)
	writing.Wait()
	_ = k.conn.Close(websocket.StatusNormalClosure, "")
}

// socketAnswer is the answer to a message, with the memory of both.
type socketAnswer struct {
	call *oip.Call
	*wire.InferResponse
	err  error
	held *gateway.HeldBytes
}

// firstRoom is the memory for a message whose length is not known.
const firstRoom = 4 << 10

// read reads the next message. The error is a *wire.Error where only that message is wrong.
func (k *socket) read(ctx context.Context, held *gateway.HeldBytes) (*oip.Call, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(listen.IdleTime, cancel)
	defer timer.Stop()
	kind, from, err := k.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	came := time.Now()
	timer.Reset(listen.BodyTime)
	room := held.Grow(firstRoom)
	body := make([]byte, 0, firstRoom)
	for {
		if room != nil { // it is read, and not kept
			if _, err := io.Copy(io.Discard, from); err != nil {
				return nil, err
			}
			return new(oip.Call), room
		}
		n, err := from.Read(body[len(body):cap(body)])
		if body = body[:len(body)+n]; errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(body) < cap(body) {
			continue
		}
		if room = held.Grow(int64(cap(body))); room != nil {
			continue
		}
		body = append(make([]byte, 0, 2*cap(body)), body...)
	}
	header := -1
	if kind == websocket.MessageBinary {
		if len(body) < 4 {
			return new(oip.Call), wire.Errorf(wire.CodeInvalid, "", "a binary message begins with the length of its JSON part, in four bytes")
		}
		header, body = int(binary.BigEndian.Uint32(body)), body[4:]
	}
	call, err := oip.DecodeRequestIn(body, header, oip.Bounds{Frame: k.frame})
	if err != nil {
		return new(oip.Call), err
	}
	q := &call.Request
	q.Pipeline, q.Arrived, q.Textual = k.model, came, call.AsText
	return call, nil
}

// write answers a message; the error says that the client does not read.
func (k *socket) write(ctx context.Context, a *socketAnswer) error {
	ctx, cancel := context.WithTimeout(ctx, listen.AnswerTime)
	defer cancel()
	var body []byte
	header, err := -1, a.err
	if err == nil {
		a.InferResponse, err = oip.Classify(a.InferResponse, a.call.Classes, a.held.Grow)
	}
	if err == nil {
		body, header, err = oip.EncodeResponse(a.InferResponse, a.call.AsBinary)
	}
	if err == nil {
		err = a.held.Grow(int64(cap(body)))
	}
	switch {
	case err != nil:
		return k.conn.Write(ctx, websocket.MessageText, socketError(a.call, err))
	case header < 0:
		return k.conn.Write(ctx, websocket.MessageText, body)
	}
	to, err := k.conn.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	_, err = to.Write(binary.BigEndian.AppendUint32(nil, uint32(header)))
	if err == nil {
		_, err = to.Write(body)
	}
	return errors.Join(err, to.Close())
}

// socketError is the message in place of an answer.
func socketError(call *oip.Call, err error) []byte {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	id, _ := json.Marshal(call.Request.ID) // a string
	return append(append([]byte(`{"id":`), id...), append([]byte{','}, oip.EncodeError(e)[1:]...)...)
}
