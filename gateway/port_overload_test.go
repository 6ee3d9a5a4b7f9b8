package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

const (
	crowdedEnv      = "HARPAGON_TEST_CROWDED" // this process is the gateway of BenchmarkGoodput
	crowdedElements = 512
	crowdedSLO      = 100 * time.Millisecond
)

// TestCrowdedGateway is that gateway, until its standard input ends.
func TestCrowdedGateway(t *testing.T) {
	if os.Getenv(crowdedEnv) == "" {
		t.Skip("is started by BenchmarkGoodput")
	}
	g := single(t, gateway.Options{}, crowdedElements, crowdedSLO, time.Millisecond, 64, func(context.Context, time.Duration) error { return nil })
	at := open(t, g, gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30}), securetest.New(t, "ours").Identity(t))
	fmt.Printf("at %s\n", at.http)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// BenchmarkGoodput sends a gateway with one processor, whose devices take no time, as many small
// requests over HTTP as it can answer, then 2, 5 and 10 times as many, and reports answers in
// time per second of the gateway's processor time. TestOverloadOfCallers checks the same in
// virtual time; this needs a machine with idle processors.
func BenchmarkGoodput(b *testing.B) {
	at, spent := crowded(b)
	text := fmt.Appendf(nil, `{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","data":[0.125%s]}]}`, crowdedElements, strings.Repeat(",0.125", crowdedElements-1))
	text = fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	const span = 5 * time.Second
	offer := func(most int, rate float64, name string) (goodput float64) {
		begin := spent()
		got := ask(b, at, text, most, rate, span)
		used := spent() - begin
		goodput = got.good * span.Seconds() / used
		b.Logf("%d callers, %.0f/s offered: %.0f/s came, %.0f/s in time, %.0f/s refused or failed; %.1f s of processor, %.0f in time for each", most, rate, got.sent, got.good, got.other, used, goodput)
		b.ReportMetric(goodput, name)
		return goodput
	}
	for b.Loop() {
		capacity := offer(16, 1e9, "at-capacity/s")
		for _, times := range []float64{2, 5, 10} {
			offer(2000, times*capacity, fmt.Sprintf("at-%vx/s", times))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// crowded starts the gateway, with one processor, and reports where it is and how many seconds of
// that it has spent. This process has one processor, too.
func crowded(t testing.TB) (at string, spent func() float64) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	return apart(t, "TestCrowdedGateway", crowdedEnv+"=1")
}

// apart starts a test that is a gateway in a process with one processor, and reports where that is and how many seconds of
// processor it has spent.
func apart(t testing.TB, test, env string) (at string, spent func() float64) {
	own := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	own.Env = append(os.Environ(), env, "GOMAXPROCS=1")
	in, err := own.StdinPipe()
	require.NoError(t, err)
	out, err := own.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, own.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = own.Wait()
	})
	spent = func() float64 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", own.Process.Pid))
		if err != nil {
			t.Skip("the system does not report a process's processor time: ", err)
		}
		var user, system float64
		_, err = fmt.Sscan(strings.Join(strings.Fields(string(stat))[13:15], " "), &user, &system)
		require.NoError(t, err)
		return (user + system) / 100
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if at, ok := strings.CutPrefix(line, "at "); ok {
			return strings.TrimSpace(at), spent
		}
	}
}

// heard are requests a second.
type heard struct{ sent, good, other float64 }

// ask sends requests at a rate over so many connections at most, each of which waits for its
// answer; those that find none free are not sent.
func ask(t testing.TB, at string, text []byte, most int, rate float64, span time.Duration) heard {
	var sent, good, other atomic.Int64
	var all sync.WaitGroup
	due := make(chan bool, most)
	begin := time.Now()
	for range most {
		all.Go(func() {
			var c net.Conn
			var in *bufio.Reader
			for range due {
				if c == nil {
					var err error
					if c, err = net.Dial("tcp", at); err != nil {
						c = nil
						continue
					}
					in = bufio.NewReader(c)
				}
				came := time.Now()
				sent.Add(1)
				status := 0
				if _, err := c.Write(text); err == nil {
					status = hear(in)
				}
				switch {
				case status == http.StatusOK && time.Since(came) <= crowdedSLO && time.Since(begin) <= span:
					good.Add(1)
				case status != 0:
					other.Add(1)
				default:
					_ = c.Close()
					c = nil
				}
			}
			if c != nil {
				_ = c.Close()
			}
		})
	}
	for n := 0.0; ; {
		past := time.Since(begin)
		if past >= span {
			break
		}
		for ; n < rate*past.Seconds(); n++ {
			select {
			case due <- true:
				continue
			default:
			}
			n = rate * past.Seconds()
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(due)
	for range due { // what is due is not sent any more
	}
	all.Wait()
	seconds := span.Seconds()
	return heard{float64(sent.Load()) / seconds, float64(good.Load()) / seconds, float64(other.Load()) / seconds}
}

// hear reads an answer whose body has a length, and is its status; 0 for none.
func hear(in *bufio.Reader) (status int) {
	length := 0
	for i := 0; ; i++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return 0
		case i == 0:
			_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			_, _ = fmt.Sscanf(string(line), "Content-Length: %d", &length)
		case len(line) == 2:
			if _, err := in.Discard(length); err != nil {
				return 0
			}
			return status
		}
	}
}
