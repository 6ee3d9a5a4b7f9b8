package listen

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// resourceExhausted is grpc's codes.ResourceExhausted. That package would have every client
// compile a part of gRPC.
const resourceExhausted = 8

// Beyond is what callers are told beyond the most connections.
const Beyond = "as many connections are open as may be (--max-connections); try again when some are closed"

// Refusal is how they are told.
type Refusal struct {
	Tell func(io.ReadWriter) // in the protocol of the port; nil says nothing
	TLS  *tls.Config         // over which it is said; nil says it as it is
}

const (
	refuseTime = time.Second    // what a caller gets to hear it
	speakTime  = refuseTime / 2 // and to speak before it is told
	mostTold   = 64             // at a time; those beyond hear nothing
	mostUnread = 1 << 20        // bytes that are read of what a caller has sent
	mostFrame  = 16 << 10       // bytes of a frame of HTTP/2, which may be no longer where nothing is agreed on
)

// say tells one thing to all.
func say(text []byte) func(io.ReadWriter) {
	return func(to io.ReadWriter) { _, _ = to.Write(text) }
}

// sayAfter tells one thing to all who have begun to speak, or have not in time: what comes
// before their request some clients take for no answer to it.
func sayAfter(text []byte) func(io.ReadWriter) {
	return func(to io.ReadWriter) {
		var first [1]byte
		_, _ = to.Read(first[:])
		_, _ = to.Write(text)
	}
}

// refuse tells one caller, and closes its connection.
func (r Refusal) refuse(c net.Conn) {
	defer c.Close()
	raw, began := c, time.Now()
	_ = raw.SetReadDeadline(began.Add(speakTime))
	_ = raw.SetWriteDeadline(began.Add(refuseTime))
	if r.TLS != nil {
		secured := tls.Server(c, r.TLS)
		if secured.Handshake() != nil {
			return
		}
		c = secured
	}
	if r.Tell != nil {
		r.Tell(c)
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = raw.SetReadDeadline(began.Add(refuseTime))
	// Left unread, what it has sent would reset the connection, and with it what it is told.
	_, _ = io.CopyN(io.Discard, c, mostUnread)
}

// speaking has a port agree on one protocol above TLS, whatever others it knows. A nil
// configuration stays nil.
func speaking(protocol string, c *tls.Config) *tls.Config {
	if c == nil || protocol == "" {
		return c
	}
	only := c.Clone()
	only.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := c.GetConfigForClient(h)
		if err == nil {
			now.NextProtos = []string{protocol}
		}
		return now, err
	}
	return only
}

// crowded is what a caller of HTTP/1 is told.
const crowded = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"error":"` + Beyond + `","code":"overloaded"}`

// refuseCall answers the first call of a client of gRPC by a status: what else HTTP/2 has to
// say it with, clients do not pass on.
func refuseCall(c io.ReadWriter) {
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c, preface[:]); err != nil || string(preface[:]) != http2.ClientPreface {
		return
	}
	f := http2.NewFramer(c, c)
	f.SetMaxReadFrameSize(mostFrame)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return
			}
		case *http2.HeadersFrame:
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: exhausted(), EndStream: true, EndHeaders: true})
			_ = f.WriteGoAway(frame.StreamID, http2.ErrCodeEnhanceYourCalm, []byte(Beyond))
			return
		}
	}
}

// exhausted are the headers of an answer of gRPC that is a status and nothing else.
func exhausted() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{
		{":status", "200"}, {"content-type", "application/grpc"},
		{"grpc-status", strconv.Itoa(resourceExhausted)}, {"grpc-message", Beyond},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	return b.Bytes()
}
