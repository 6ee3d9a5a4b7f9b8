package server

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/queue"
)

// owning is a dispatcher elsewhere that the gateway obeys by an epoch; it records what it
// receives.
type owning struct {
	near, far net.Conn
	told      []queue.Message
}

func own(t *testing.T, d *dispatcher.Dispatcher, h *holder, epoch uint64) *owning {
	return ownAs(t, d, h, epoch, "") // an older one
}

func ownAs(t *testing.T, d *dispatcher.Dispatcher, h *holder, epoch uint64, token string) *owning {
	o := new(owning)
	o.near, o.far = net.Pipe()
	go hear(o.far, func(m queue.Message) { o.told = append(o.told, m) })
	go func() {
		frames := queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Dispatcher, Text: []byte("d"), Token: []byte(token)})
		_, _ = o.far.Write(queue.Append(frames, &queue.Message{Kind: queue.Own, Epoch: epoch}))
	}()
	conn, err := queue.Open(o.near, queue.Self{Role: queue.Gateway, Name: "g", Patience: -1}, queue.Dispatcher, nil)
	require.NoError(t, err)
	go func() { _ = d.Obey(conn, h) }()
	synctest.Wait()
	return o
}

// of are the messages of a kind.
func (o *owning) of(kind queue.Kind) (all []queue.Message) {
	for _, m := range o.told {
		if m.Kind == kind {
			all = append(all, m)
		}
	}
	return all
}

// TestAnOlderGenerationFollowsItsNewOwner has the owner of a service go while an item waits
// whose module the next generation does not have: the next owner receives it.
func TestAnOlderGenerationFollowsItsNewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := follower(time.Now()), &holder{}
		first := own(t, d, h, 1)
		it := h.install(t, d, 1)
		finish(d, h.install(t, d, 2))
		synctest.Wait()
		require.Len(t, first.of(queue.Arrive), 2)
		_ = first.far.Close()
		synctest.Wait()
		second := own(t, d, h, 2)
		require.Len(t, second.of(queue.Arrive), 1, "the item of the older generation")
		require.Len(t, second.of(queue.Install), 2)
		finish(d, it)
		synctest.Wait()
		require.NotEmpty(t, second.of(queue.Forget))
		_ = second.far.Close()
	})
}

// TestExecutorsOfOlderGenerationsServe what is left of them, whether they come before a
// dispatcher receives the generation or after, and only until that is removed.
func TestExecutorsOfOlderGenerationsServe(t *testing.T) {
	began := time.Now()
	d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Record: -1})
	compile := func(n int) *dispatcher.Generation {
		of := version(n)
		of.Slots = []placement.Slot{{Executor: fmt.Sprint("e", n), Pipeline: "p", Module: "m", Hardware: "cpu", Host: "h", Batch: 1, Model: fmt.Sprint("v", n)}}
		g, err := d.Compile(of)
		require.NoError(t, err)
		return g
	}
	come := func(n int) {
		d.Register(dispatcher.Introduction{Name: fmt.Sprint("e", n), Service: "p", Host: "h", Device: fmt.Sprint(n)}, true)
	}
	down := func(g *dispatcher.Generation) bool {
		_, down := d.Unavailable(g, 0)
		return down
	}
	g3, g2, g1 := compile(3), compile(2), compile(1)
	d.Install(g3, nil, nil)
	come(2)
	require.True(t, down(g3))
	d.Adopt(g2)
	require.False(t, down(g2), "it was there before")
	d.Adopt(g1)
	require.True(t, down(g1))
	come(1)
	require.False(t, down(g1))
	come(3)
	require.False(t, down(g3))
	g4 := compile(4)
	d.Install(g4, nil, nil)
	come(3)
	require.False(t, down(g3), "it came again")
	d.Forget(g3)
	come(3)
	require.True(t, down(g3))
	require.True(t, down(g4))
}

// TestOwnersBeforeLearnThatARequestIsOver has a service change its owner while a request waits, to and fro:
// the one before would count it as under way for as long as the connection lasts.
func TestOwnersBeforeLearnThatARequestIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := follower(time.Now()), &holder{}
		first := own(t, d, h, 1)
		it := h.install(t, d, 1)
		second := own(t, d, h, 2)
		_, err := first.far.Write(queue.Append(nil, &queue.Message{Kind: queue.Own, Epoch: 3}))
		require.NoError(t, err)
		synctest.Wait()
		again := first.of(queue.Arrive)
		require.Len(t, again, 2)
		require.Equal(t, again[0].Request, again[1].Request)
		finish(d, it)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, first.of(queue.Leave), 1)
		require.Len(t, second.of(queue.Leave), 1)
		_, _ = first.far.Close(), second.far.Close()
	})
}
