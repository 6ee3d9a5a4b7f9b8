package attach

import (
	"errors"
	"fmt"

	"github.com/harpagon/harpagon/wire/stream"
)

// version of the protocol.
const version = 1

// preamble is what either side sends first. It ends like a request of HTTP, so that a
// server of that answers at once what it thinks of it.
var preamble = [...]byte{'h', 'p', 'g', 'a', version, '\r', '\n', '\r', '\n'}

// kind of a frame, its first byte.
const (
	kindToken   = iota + 1 // executor to gateway, first
	kindMessage            // an attachpb.Message
	kindEnd                // why; empty in good order
)

// toClients answers a client that has come to the wrong port.
const toClients = `{"error":"this is the port to which executors attach, and takes no requests; send them to the port for clients (harpagon gateway --http prints its address)"}`

// frame makes one.
func frame(kind byte, text string) []byte {
	return append(append(stream.AppendLength(nil, 1+len(text)), kind), text...)
}

// Refusal is what an executor is told that is not listened to; its Recv returns why.
func Refusal(why string) []byte { return append(preamble[:], frame(kindEnd, why)...) }

// greeted reads the preamble of the other side, who is named.
func greeted(c *stream.Conn, who string) (first [len(preamble)]byte, err error) {
	if err := c.First(first[:]); err != nil {
		return first, err
	}
	switch {
	case [4]byte(first[:4]) != [4]byte(preamble[:4]):
		return first, errors.New(who + " is no port to which executors attach; that is the one of harpagon gateway --attach, or the one after harpagon dispatcher --listen")
	case first[4] != version:
		return first, fmt.Errorf("%s speaks version %d of the protocol and this program version %d; run the same version of harpagon on both sides", who, first[4], version)
	}
	return first, nil
}

// meet reads what an executor says first: its token.
func meet(c *stream.Conn) (token string, err error) {
	first, err := greeted(c, "what has dialled")
	if stream.FromClient(first[:]) {
		c.RefuseClient(toClients)
	}
	if err != nil {
		c.Release(nil)
		c.Drain()
		return "", err
	}
	c.Release(nil)
	f, err := c.Next()
	switch {
	case err != nil:
		return "", err
	case len(f) == 0 || f[0] != kindToken:
		return "", errors.New("an executor must send its token first")
	}
	return string(f[1:]), nil
}
