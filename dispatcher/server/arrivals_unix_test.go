//go:build unix

package server

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/queue"
)

// BenchmarkArrivals has gateways in processes of their own offer requests over loopback
// TCP, as real frames, so many a write, and measures what the dispatcher's process spends
// of the processor for each: reading, admission, policy, batches, their ends, and what it
// writes. Executors report through a pipe that a batch is done, when its gateway finds its time
// over.
//
//	GOGC=300 go test -run '^$' -bench Arrivals -benchtime 3000000x ./dispatcher/server
//
// GOGC is what the programs that serve run with.
func BenchmarkArrivals(b *testing.B) {
	for _, write := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("write=%d", write), func(b *testing.B) { benchArrivals(b, 1, write) })
	}
	b.Run("write=64/parts=2", func(b *testing.B) { benchArrivals(b, 2, 64) })
}

// benchArrivals has a part of a cluster for each gateway.
func benchArrivals(b *testing.B, parts, write int) {
	began := time.Now()
	d := dispatcher.New(dispatcher.Options{Now: func() dispatch.Time { return 1 + time.Since(began) }, Margin: 2 * time.Millisecond, Record: -1})
	s := New(d, Options{Name: "d", Patience: time.Hour})
	s.Claim()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer listener.Close()
	served := make(chan error, parts) // why connections have ended
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { served <- s.Serve(c) }()
		}
	}()
	deployments := clustered(parts)
	streams := map[string]attach.Stream{}
	var batches atomic.Int64
	for _, of := range deployments {
		for _, slot := range of.Slots {
			near, far := attach.Pipe()
			streams[slot.Executor] = near
			go func() { _ = s.Attach(far) }()
			require.NoError(b, near.Send(&attach.Message{Hello: &attach.Hello{Executor: slot.Executor, Pipeline: of.Name(), Hardware: "gpu", MaxBatch: largest}}))
		}
	}
	var gateways []*offering
	for _, of := range deployments {
		gateways = append(gateways, offer(b, listener.Addr().String(), of, write, b.N/parts, *arrivalRate/float64(parts)))
	}
	before := spent(b)
	b.ReportAllocs()
	b.ResetTimer()
	ends := make(chan offered, parts)
	for _, g := range gateways {
		go func() { ends <- g.run(streams, &batches) }()
	}
	var all offered
	for range gateways {
		o := <-ends
		if o.err != nil {
			b.Fatalf("a gateway has ended: %v; the dispatcher returned: %v", o.err, <-served)
		}
		all.Started, all.Dropped, all.Took = all.Started+o.Started, all.Dropped+o.Dropped, max(all.Took, o.Took)
	}
	b.StopTimer()
	each := float64(spent(b)-before) / float64(b.N)
	b.ReportMetric(each, "cpu-ns/arrival")
	b.ReportMetric(1e9/each, "arrivals/s-a-core")
	b.ReportMetric(float64(all.Started)/float64(max(1, batches.Load())), "batch")
	b.ReportMetric(float64(all.Dropped)/float64(b.N), "dropped")
	b.ReportMetric(float64(b.N)/all.Took.Seconds(), "offered/s")
	for _, near := range streams {
		_ = near.Close()
	}
}

func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// offering is a gateway in a process of its own.
type offering struct {
	tell io.WriteCloser
	said *bufio.Reader
	wait func() error
}

// offered is what became of its requests, and how long it took to offer them.
type offered struct {
	Started, Dropped int
	Took             time.Duration
	err              error
}

// offer starts a gateway that offers n requests when run is called.
func offer(b *testing.B, address string, of placement.Deployment, write, n int, rate float64) *offering {
	c := exec.Command(os.Args[0], "-test.run", "^TestOfferArrivals$", "-arrivals", fmt.Sprint(*arrivalRate))
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %g %d", gatewayEnv, address, write, n, rate, len(of.Cluster.Parts[0].Members)))
	c.Stderr = os.Stderr
	tell, err := c.StdinPipe()
	require.NoError(b, err)
	out, err := c.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, c.Start())
	g := &offering{tell: tell, said: bufio.NewReader(out), wait: c.Wait}
	require.NoError(b, json.NewEncoder(tell).Encode(of))
	said, err := g.said.ReadString('\n')
	require.NoError(b, err)
	require.Equal(b, "ready\n", said)
	return g
}

// run reads from the gateway which batches are done, and reports them to the dispatcher as
// their executors.
func (g *offering) run(streams map[string]attach.Stream, batches *atomic.Int64) (o offered) {
	if _, o.err = io.WriteString(g.tell, "go\n"); o.err != nil {
		return o
	}
	for {
		line, err := g.said.ReadString('\n')
		if err != nil {
			o.err = err
			return o
		}
		if end, ok := strings.CutPrefix(line, "end "); ok {
			o.err = json.Unmarshal([]byte(end), &o)
			_ = g.tell.Close()
			_ = g.wait()
			return o
		}
		f := strings.Fields(line)
		if len(f) != 5 || f[0] != "done" {
			continue // of package testing
		}
		f = f[1:]
		epoch, _ := strconv.ParseUint(f[1], 10, 64)
		batch, _ := strconv.ParseUint(f[2], 10, 64)
		took, _ := strconv.ParseInt(f[3], 10, 64)
		batches.Add(1)
		_ = streams[f[0]].Send(&attach.Message{Done: &attach.Done{Epoch: epoch, Batch: batch, Compute: time.Duration(took)}})
	}
}

// TestOfferArrivals is the gateway of BenchmarkArrivals.
func TestOfferArrivals(t *testing.T) {
	told := os.Getenv(gatewayEnv)
	if told == "" {
		t.Skip("is run by BenchmarkArrivals")
	}
	g := gatewayProcess{out: bufio.NewWriterSize(os.Stdout, 1<<16)}
	var address string
	_, err := fmt.Sscan(told, &address, &g.write, &g.n, &g.rate, &g.modules)
	require.NoError(t, err)
	in := bufio.NewReader(os.Stdin)
	of, err := in.ReadBytes('\n')
	require.NoError(t, err)
	g.conn, err = net.Dial("tcp", address)
	require.NoError(t, err)
	frames := queue.Append([]byte("hpgq\x05\r\n\r\n"), &queue.Message{Kind: queue.Hello, Role: queue.Gateway, Text: []byte("g")})
	frames = queue.Append(frames, &queue.Message{Kind: queue.Install, Generation: 1, Text: of})
	_, err = g.conn.Write(frames)
	require.NoError(t, err)
	time.Sleep(time.Second) // until it is installed
	fmt.Println("ready")
	_, err = in.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, g.run())
	os.Exit(0) // without the summary of package testing
}

// gatewayProcess offers requests at a rate, and ends batches when their time is over.
type gatewayProcess struct {
	conn    net.Conn
	out     *bufio.Writer
	write   int // messages
	n       int
	rate    float64
	modules uint64
	free    []uint64 // numbers of requests that are over
	next    uint64
	ends    ends
	frames  []byte
	held    int
	offered
}

type end struct {
	at    time.Time
	line  string
	items []uint64
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// Bounds of a gateway that cannot offer its rate.
const (
	atOnce   = 1 << 9  // requests before it looks at what has ended
	mostOpen = 1 << 19 // requests under way
)

func (g *gatewayProcess) run() error {
	heard := make(chan []end, 1<<10)
	go func() { _ = listening(g.conn, heard) }()
	rng := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	due := began
	var over []uint64 // requests
	for sent := 0; g.Started+g.Dropped < g.n; {
		now := time.Now()
		// It is late where the machine cannot offer that much: what has ended must be reported all
		// the same, and a dispatcher refuses more than so many at a time.
		for most := sent + atOnce; sent < min(g.n, most) && !due.After(now) && g.next-uint64(len(g.free)) < mostOpen; sent++ {
			g.arrive(rng.Uint64N(g.modules))
			due = due.Add(time.Duration(rng.ExpFloat64() / g.rate * float64(time.Second)))
		}
		if sent == g.n && g.Took == 0 {
			g.Took = time.Since(began)
		}
		for len(g.ends) > 0 && !g.ends[0].at.After(now) {
			e := heap.Pop(&g.ends).(end)
			over = append(over, e.items...)
			_, _ = g.out.WriteString(e.line)
		}
		// The executor reports to dispatcher and gateway at once; the gateway answers its clients
		// before it reports to the dispatcher.
		_ = g.out.Flush()
		for _, r := range over {
			g.leave(r)
		}
		over = over[:0]
		for more := true; more; {
			select {
			case all := <-heard:
				for _, e := range all {
					if e.line == "" {
						g.Dropped++
						g.leave(e.items[0])
						continue
					}
					g.Started += len(e.items)
					heap.Push(&g.ends, e)
				}
			default:
				more = false
			}
		}
		if sent == g.n {
			g.flush()
		}
		if due.After(now) || sent == g.n {
			time.Sleep(200 * time.Microsecond)
		}
	}
	said, err := json.Marshal(g.offered)
	fmt.Fprintf(g.out, "end %s\n", said)
	_ = g.out.Flush()
	return err
}

func (g *gatewayProcess) arrive(node uint64) {
	r := g.next
	if n := len(g.free); n > 0 {
		r, g.free = g.free[n-1], g.free[:n-1]
	} else {
		g.next++
	}
	g.send(&queue.Message{Kind: queue.Arrive, Generation: 1, Request: r, Item: r, Node: node, Size: 1, Left: objective(), Timed: true})
}

func (g *gatewayProcess) leave(r uint64) {
	g.send(&queue.Message{Kind: queue.Leave, Request: r})
	g.free = append(g.free, r)
}

// send writes so many messages at once.
func (g *gatewayProcess) send(m *queue.Message) {
	g.frames = queue.Append(g.frames, m)
	if g.held++; g.held >= g.write {
		g.flush()
	}
}

func (g *gatewayProcess) flush() {
	if _, err := g.conn.Write(g.frames); err != nil {
		panic(err) // the process is of no use any more
	}
	g.frames, g.held = g.frames[:0], 0
}

// listening reads the dispatcher's messages.
func listening(c net.Conn, heard chan<- []end) error {
	read := bufio.NewReaderSize(c, 1<<16)
	if _, err := read.Discard(9); err != nil {
		return err
	}
	var m queue.Message
	var frame []byte
	for {
		n, err := binary.ReadUvarint(read)
		if err != nil {
			return err
		}
		if uint64(cap(frame)) < n {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(read, frame); err != nil {
			return err
		}
		if err := queue.Parse(frame, &m); err != nil {
			return err
		}
		switch m.Kind {
		case queue.Start:
			took := duration(len(m.Items))
			e := end{at: time.Now().Add(took), line: fmt.Sprintf("done %s %d %d %d\n", m.Text, m.Epoch, m.Batch, took)}
			for _, r := range m.Items {
				e.items = append(e.items, r.Item)
			}
			heard <- []end{e}
		case queue.Drop:
			heard <- []end{{items: []uint64{m.Item}}}
		case queue.Ping:
			// what the load sends is a sign of life
		}
	}
}
