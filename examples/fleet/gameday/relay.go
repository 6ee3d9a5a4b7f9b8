package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

// relay is a port that leads to another one, until something is done to what goes through.
type relay struct {
	listen, to string
	listener   net.Listener
	mu         sync.Mutex
	pairs      map[net.Conn]net.Conn
	refuses    bool
	still      chan struct{} // closed when bytes move again; nil while they do
}

func newRelay(listen, to string) (*relay, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	r := &relay{listen: listen, to: to, listener: l, pairs: map[net.Conn]net.Conn{}}
	go func() {
		for {
			near, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go r.carry(near)
			}
		}
	}()
	return r, nil
}

func (r *relay) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	refused := r.refuses
	if !refused {
		r.pairs[near] = far
	}
	r.mu.Unlock()
	if refused {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.copy(far, near) })
	both.Go(func() { r.copy(near, far) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pairs, near)
}

// copy moves bytes one way, and closes the receiver's side after the last.
func (r *relay) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		still := r.still
		r.mu.Unlock()
		if still != nil {
			<-still
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if one, ok := to.(*net.TCPConn); ok {
				_ = one.CloseWrite()
			}
			return
		}
	}
}

// cut ends all connections as they are, with a reset.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for near, far := range r.pairs {
		for _, c := range []net.Conn{near, far} {
			if one, ok := c.(*net.TCPConn); ok {
				_ = one.SetLinger(0)
			}
			_ = c.Close()
		}
	}
}

func (r *relay) refuse(yes bool) {
	r.mu.Lock()
	r.refuses = yes
	r.mu.Unlock()
	if yes {
		r.cut()
	}
}

// stand lets no byte through for a time; connections stay.
func (r *relay) stand(d time.Duration) {
	still := make(chan struct{})
	r.mu.Lock()
	r.still = still
	r.mu.Unlock()
	time.Sleep(d)
	r.mu.Lock()
	r.still = nil
	r.mu.Unlock()
	close(still)
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.cut()
}
