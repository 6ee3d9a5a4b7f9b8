package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// BenchmarkPort is a request of binary tensors over loopback, of a few bytes and of 150 kB,
// from one caller and from 16. Its callers allocate nothing, and write and read as one would.
func BenchmarkPort(b *testing.B) {
	for _, size := range []int{64, 150_000} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dB/%d", size, callers), func(b *testing.B) {
				q := &wire.InferRequest{Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromUint8(make([]byte, size))}}}
				body, header, err := oip.EncodeRequest(q, 0)
				require.NoError(b, err)
				n, err := json.Marshal(header)
				require.NoError(b, err)
				text := []byte(posts(inferPath, string(body), oip.HeaderLength+": "+string(n)))
				at := strings.TrimPrefix(served(b, New(&backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
					return &wire.InferResponse{}, nil
				}}, Options{})), "http://")
				conns, readers := make([]net.Conn, callers), make([]*bufio.Reader, callers)
				length := 0
				for i := range conns {
					c, err := net.Dial("tcp", at)
					require.NoError(b, err)
					defer c.Close()
					conns[i], readers[i] = c, bufio.NewReader(c)
					_, err = c.Write(text)
					require.NoError(b, err)
					r, err := http.ReadResponse(readers[i], nil)
					require.NoError(b, err)
					require.Equal(b, http.StatusOK, r.StatusCode)
					said, err := io.ReadAll(r.Body)
					require.NoError(b, err)
					length = len(said)
				}
				b.ReportAllocs()
				b.ResetTimer()
				begin, spent := time.Now(), spentSoFar()
				var all sync.WaitGroup
				for i := range conns {
					all.Go(func() {
						for range (b.N + callers - 1) / callers {
							if _, err := conns[i].Write(text); err != nil || !skip(readers[i], length) {
								b.Error("no answer")
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(spentSoFar()-spent)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(time.Since(begin))/float64(b.N), "ns/op")
			})
		}
	}
}

// skip reads an answer whose body has a length.
func skip(in *bufio.Reader, length int) bool {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false
		}
		if len(line) == 2 {
			n, err := in.Discard(length)
			return err == nil && n == length
		}
	}
}

// spentSoFar is the processor time of this process.
func spentSoFar() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
