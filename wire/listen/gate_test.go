package listen

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheNewestReadsFirst has one turn: those who wait get it newest first, and once in
// a while the oldest.
func TestTheNewestReadsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1, turns: oldestEvery - 4}
		got := make(chan int, 10)
		var conns []*gatedConn
		for i := range 8 {
			server, client := net.Pipe()
			c := &gatedConn{Conn: server, gate: g, turn: make(chan struct{}, 1)}
			conns = append(conns, c)
			go func() { _, _ = client.Write([]byte("x")) }()
			go func() {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					got <- i
				}
			}()
			synctest.Wait()
		}
		var order []int
		for range conns {
			i := <-got
			order = append(order, i)
			require.NoError(t, conns[i].Close())
			synctest.Wait()
		}
		require.Equal(t, []int{0, 7, 6, 5, 1, 4, 3, 2}, order)
		require.Equal(t, 1, g.free)
		require.Empty(t, g.waiting)
	})
}

// TestNoConnectionWaitsInTurnForEver has a holder that neither reads nor closes.
func TestNoConnectionWaitsInTurnForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 0}
		server, client := net.Pipe()
		c := &gatedConn{Conn: server, gate: g, turn: make(chan struct{}, 1)}
		go func() { _, _ = client.Write([]byte("x")) }()
		begin := time.Now()
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, mostWait, time.Since(begin))
		require.Empty(t, g.waiting)
		require.NoError(t, c.Close())
		require.Zero(t, g.free, "it had no turn to give back")
	})
}

// TestGoodputHoldsHoweverManyAreToBeRead gives a server that handles what it reads in a
// millisecond, two at a time, requests that are to be answered within 100 ms.
func TestGoodputHoldsHoweverManyAreToBeRead(t *testing.T) {
	const took, within, turns, capacity = time.Millisecond, 100 * time.Millisecond, 2, 2000
	for _, times := range []int{1, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{free: turns}
			var good atomic.Int64
			var all sync.WaitGroup
			for range times * capacity {
				time.Sleep(time.Second / time.Duration(times*capacity))
				came := time.Now()
				server, client := net.Pipe()
				c := &gatedConn{Conn: server, gate: g, turn: make(chan struct{}, 1)}
				go func() { _, _ = client.Write([]byte("x")) }()
				all.Go(func() {
					if _, err := c.Read(make([]byte, 1)); err != nil {
						return
					}
					if !c.in.Load() {
						return // it waited too long for a turn
					}
					time.Sleep(took)
					if time.Since(came) <= within {
						good.Add(1)
					}
					_ = c.Close()
				})
			}
			took := good.Load()
			all.Wait()
			require.GreaterOrEqual(t, took, int64(0.9*capacity), "at %d times what it can", times)
		})
	}
}
