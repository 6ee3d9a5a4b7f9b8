package listen

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheNewestReadsFirst has one turn: those who wait get it newest first, and every
// fourth time the oldest.
func TestTheNewestReadsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{free: 1}
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

// TestNobodyWaitsInTurnForEver has a holder that neither reads nor closes.
func TestNobodyWaitsInTurnForEver(t *testing.T) {
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
