package stream

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
)

// Prompt is the connection with a Write that never waits: what the kernel does not take
// at once is kept, and written by a goroutine. TLS goes above it. A connection that is no
// socket is given back as it is.
func Prompt(c net.Conn) net.Conn {
	raw := rawOf(c)
	if raw == nil {
		return c
	}
	p := &prompt{Conn: c, raw: raw}
	p.written.L = &p.mu
	p.step = p.write
	return p
}

// rawOf looks for the socket beneath what wraps it; nil where there is none.
func rawOf(c net.Conn) syscall.RawConn {
	for c != nil && canWriteAtOnce {
		if s, ok := c.(syscall.Conn); ok {
			raw, err := s.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		}
		c = beneath(c)
	}
	return nil
}

// beneath is what a connection wraps; nil where it has no NetConn.
func beneath(c net.Conn) net.Conn {
	if w, ok := c.(interface{ NetConn() net.Conn }); ok {
		return w.NetConn()
	}
	return nil
}

// promptOf is the Prompt below a connection; nil where there is none.
func promptOf(c net.Conn) *prompt {
	for c != nil {
		if p, ok := c.(*prompt); ok {
			return p
		}
		c = beneath(c)
	}
	return nil
}

type prompt struct {
	net.Conn
	raw  syscall.RawConn
	step func(fd uintptr) bool

	mu      sync.Mutex
	written sync.Cond // nothing is behind, or writing has failed
	behind  []byte    // that the kernel has not taken
	writing bool      // a goroutine writes what is behind
	failed  error

	// Of one write at once.
	at  []byte
	n   int
	err error
}

// NetConn is the connection beneath.
func (p *prompt) NetConn() net.Conn { return p.Conn }

// Write implements net.Conn. An error may be that of a write before.
func (p *prompt) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return 0, p.failed
	}
	rest := b
	if !p.writing {
		p.at = b
		err := p.raw.Write(p.step)
		n := p.n
		if err == nil {
			err = p.err
		}
		p.at, p.n, p.err = nil, 0, nil
		if err != nil {
			p.failed = &net.OpError{Op: "write", Net: "tcp", Source: p.LocalAddr(), Addr: p.RemoteAddr(), Err: err}
			return n, p.failed
		}
		rest = b[n:]
	}
	if len(rest) == 0 {
		return len(b), nil
	}
	p.behind = append(p.behind, rest...)
	if !p.writing {
		p.writing = true
		go p.catchUp()
	}
	return len(b), nil
}

// write has the kernel take what it can, and never requests to wait.
func (p *prompt) write(fd uintptr) bool {
	p.n, p.err = writeAtOnce(fd, p.at)
	return true
}

// catchUp writes what is behind.
func (p *prompt) catchUp() {
	var batch []byte
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.behind) > 0 && p.failed == nil {
		batch, p.behind = p.behind, batch[:0]
		p.mu.Unlock()
		_, err := p.Conn.Write(batch)
		p.mu.Lock()
		p.failed = err
	}
	p.behind, p.writing = nil, false
	p.written.Broadcast()
}

// busy reports that something is behind.
func (p *prompt) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writing
}

// wait returns when nothing is behind, or with the error that it was not written for.
func (p *prompt) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.writing {
		p.written.Wait()
	}
	return p.failed
}

// Listener has a Prompt of every connection that it accepts.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Prompt(c), nil
}

// Dial opens a Prompt to a TCP address, with TLS where there is a configuration of it.
func Dial(ctx context.Context, address string, over *tls.Config) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c = Prompt(c)
	if over == nil {
		return c, nil
	}
	secured := tls.Client(c, over)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return secured, nil
}
