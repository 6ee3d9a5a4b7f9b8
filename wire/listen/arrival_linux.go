package listen

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp is a listener whose connections report when data came to the kernel; see Arrival. Where
// that is not supported, it is the listener itself.
//
// It stays because without it a gateway short of processors answers in time 0.62 to 0.66 of
// the requests that it does with it, at 2, 5 and 10 times what it can (BenchmarkGoodput): what
// has waited to be read for all its time is taken for new. It costs 2 µs a request.
func Stamp(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return l
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return l
	}
	var set error // connections inherit it
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }); err != nil || set != nil {
		return l
	}
	return datingListener{tcp, newSteps(), &sync.Pool{New: func() any { return new([ahead]byte) }}}
}

type datingListener struct {
	*net.TCPListener
	steps *steps
	spare *sync.Pool // of *[ahead]byte
}

// ahead is how much is read beyond what is requested, where that is less: a server reads
// headers by 4 KiB, and the body of a small request behind them then costs no call of its own.
const ahead = 16 << 10

func (l datingListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return c, nil
	}
	return &datedConn{TCPConn: c, raw: raw, steps: l.steps, spare: l.spare}, nil
}

// datedConn reads with the time of arrival by the kernel's clock. Reads come from one goroutine
// at a time.
type datedConn struct {
	*net.TCPConn
	raw   syscall.RawConn
	steps *steps
	at    atomic.Int64 // Unix time in nanoseconds of what was read last; 0 for unknown
	oob   [64]byte     // holds a header of 16 bytes and a timespec
	into  []byte
	n     int
	err   error

	spare *sync.Pool
	ahead *[ahead]byte // nil while nothing was read ahead
	rest  []byte       // of it, which has not been requested yet
}

func (c *datedConn) arrival() time.Time {
	at := c.at.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// Read reads like any connection.
func (c *datedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.ahead != nil {
		return c.takeRest(p), nil
	}
	c.into = p
	err := c.raw.Read(c.receive)
	c.into = nil
	switch {
	case err != nil:
		return 0, err
	case c.err != nil:
		return 0, os.NewSyscallError("recvmsg", c.err)
	case c.n == 0:
		return 0, io.EOF
	}
	return min(c.n, len(p)), nil
}

// WriteTo reads like everybody else: what was read ahead is not in the connection below.
func (c *datedConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

// takeRest gives what was read ahead.
func (c *datedConn) takeRest(p []byte) int {
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.spare.Put(c.ahead)
		c.ahead, c.rest = nil, nil
	}
	return n
}

// receive is false when there is nothing to read yet.
func (c *datedConn) receive(fd uintptr) bool {
	into := [][]byte{c.into, nil}[:1]
	var more *[ahead]byte
	if len(c.into) < ahead {
		more = c.spare.Get().(*[ahead]byte)
		into = append(into, more[:])
	}
	n, oob, _, _, err := unix.RecvmsgBuffers(int(fd), into, c.oob[:], 0)
	for err == unix.EINTR {
		n, oob, _, _, err = unix.RecvmsgBuffers(int(fd), into, c.oob[:], 0)
	}
	switch {
	case n > len(c.into):
		c.ahead, c.rest = more, more[:n-len(c.into)]
	case more != nil:
		c.spare.Put(more)
	}
	if err == unix.EAGAIN {
		return false
	}
	if c.n, c.err = n, err; err == nil && n > 0 {
		at := dateOf(c.oob[:oob])
		if !c.steps.believe(time.Now()) {
			at = 0
		}
		c.at.Store(at)
	}
	return true
}

// dateOf finds the time stamp among what came beside the data.
func dateOf(oob []byte) int64 {
	const word = 8
	head := unix.CmsgSpace(0)
	if len(oob) < head+2*word || head != 2*word {
		return 0
	}
	level, kind := binary.NativeEndian.Uint32(oob[word:]), binary.NativeEndian.Uint32(oob[word+4:])
	if level != unix.SOL_SOCKET || kind != unix.SCM_TIMESTAMPNS {
		return 0
	}
	seconds, rest := binary.NativeEndian.Uint64(oob[head:]), binary.NativeEndian.Uint64(oob[head+word:])
	return int64(seconds)*int64(time.Second) + int64(rest)
}
