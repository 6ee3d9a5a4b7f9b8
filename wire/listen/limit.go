package listen

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Descriptors is how many files and connections this process may have open. Go
// raises it to what the system allows when a process starts.
func Descriptors() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return fewDescriptors
	}
	return int(min(r.Cur, 1<<30))
}

// fewDescriptors are too few for a process that serves others.
const fewDescriptors = 4096

// Few warns of too few descriptors; empty where there are enough.
func Few() string {
	if n := Descriptors(); n < fewDescriptors {
		return "this process may have only " + strconv.Itoa(n) + " files and connections open; raise that with ulimit -n, or LimitNOFILE of its service"
	}
	return ""
}

// Limit keeps at most so many connections of a listener open. Those beyond are refused
// and closed, so that descriptors never run out. most is above 0.
func Limit(l net.Listener, most int, r Refusal) net.Listener {
	return &limited{Listener: l, most: int64(most), refusal: r}
}

type limited struct {
	net.Listener
	most    int64
	refusal Refusal
	open    atomic.Int64
	told    atomic.Int64 // connections that are being told
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: c, close: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		if l.told.Add(1) > mostTold {
			l.told.Add(-1)
			_ = c.Close()
			continue
		}
		go func() {
			defer l.told.Add(-1)
			l.refusal.refuse(c)
		}()
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	close func()
}

// NetConn is the connection below.
func (c *counted) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *counted) Close() error {
	c.close()
	return c.Conn.Close()
}
