package gateway_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

const (
	picturesEnv     = "HARPAGON_TEST_PICTURES" // this process is the gateway of BenchmarkPictures
	pictureElements = 3 * 224 * 56             // of four bytes each: 150 kB
	pictureBytes    = 4 * pictureElements
	pictureBatch    = 16
)

// region is an engine that does with the inputs of a batch what those do that share memory with a program: it copies
// them there.
type region struct{ executors.Engine }

func (r region) Load(ctx context.Context, m executors.Model) (executors.Instance, error) {
	in, err := r.Engine.Load(ctx, m)
	return &regionInstance{in, make([]byte, pictureBatch*pictureBytes), wire.FromFloat32([]float32{0, 0}, 2)}, err
}

type regionInstance struct {
	executors.Instance
	memory []byte
	answer wire.Tensor
}

func (r *regionInstance) Signature() pipelines.Signature {
	s := r.Instance.Signature()
	s.Outputs = []pipelines.Port{{Name: "y", Datatype: wire.FP32, Shape: []int64{2}}}
	return s
}

func (r *regionInstance) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	to := r.memory
	answers := make([][]wire.Tensor, len(items))
	for i := range items {
		to = to[copy(to, items[i][0].Data):]
		answers[i] = []wire.Tensor{r.answer}
	}
	return answers, nil
}

// TestGatewayOfPictures is the gateway of BenchmarkPictures, until its standard input ends. With a path
// in picturesEnv it writes a profile of its processor there.
func TestGatewayOfPictures(t *testing.T) {
	path := os.Getenv(picturesEnv)
	if path == "" {
		t.Skip("is started by BenchmarkPictures")
	}
	g := single(t, gateway.Options{}, pictureElements, time.Minute, time.Millisecond, pictureBatch, func(context.Context, time.Duration) error { return nil },
		func(e executors.Engine) executors.Engine { return region{e} })
	at := open(t, g, gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30}), securetest.New(t, "ours").Identity(t))
	fmt.Printf("at %s %s\n", at.http, at.grpc)
	if strings.HasPrefix(path, "/") {
		f, err := os.Create(path)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// BenchmarkPictures sends pictures of 150 kB over HTTP, in its bodies and in shared memory, and over gRPC to a gateway in a process of its own, whose engine
// copies them to a region. It reports the bytes for each second of processor time that the gateway spends, and that time
// as a multiple of copying the picture once, measured in the same run.
func BenchmarkPictures(b *testing.B) {
	const callers = 8
	q := &wire.InferRequest{Pipeline: "p", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32(make([]float32, pictureElements), pictureElements)}}}
	body, header, err := oip.EncodeRequest(q, 0)
	require.NoError(b, err)
	text := fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\n%s: %d\r\nContent-Length: %d\r\n\r\n%s", oip.HeaderLength, header, len(body), body)
	memory, err := os.CreateTemp(osutil.SharedMemory, sharedPrefix)
	require.NoError(b, err)
	defer os.Remove(memory.Name())
	require.NoError(b, memory.Truncate(pictureBytes))
	for _, by := range []string{"http", "shared", "grpc"} {
		b.Run(by, func(b *testing.B) {
			where, spent := apart(b, "TestGatewayOfPictures", picturesEnv+"="+cmp.Or(os.Getenv(picturesEnv), "1"))
			var at ports
			_, err := fmt.Sscan(where, &at.http, &at.grpc)
			require.NoError(b, err)
			text := text
			if by == "shared" {
				text = place(b, at.http, filepath.Base(memory.Name()))
			}
			asks := make([]func() error, callers)
			for i := range asks {
				asks[i] = pictureCaller(b, by, at, text, q)
				require.NoError(b, asks[i]())
			}
			begin := spent()
			b.ResetTimer()
			var all sync.WaitGroup
			for _, ask := range asks {
				all.Go(func() {
					for range (b.N + callers - 1) / callers {
						if err := ask(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			n := float64((b.N + callers - 1) / callers * callers)
			each := (spent() - begin) / n
			b.ReportMetric(pictureBytes/each/1e6, "MB/core-s")
			b.ReportMetric(each/copiedOnce().Seconds(), "copies")
		})
	}
}

// place registers memory that holds a picture, and makes a request that leads to it.
func place(b *testing.B, at, key string) []byte {
	c := oip.NewClient(oip.ClientOptions{URL: "http://" + at})
	require.NoError(b, c.Register(b.Context(), oip.Region{Name: "r", Key: "/" + key, Size: pictureBytes}))
	body := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":%d}}]}`, pictureElements, pictureBytes)
	return fmt.Appendf(nil, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// copiedOnce is how long copying a picture takes, from where it has just been read to a region of a batch.
func copiedOnce() time.Duration {
	from, to := make([]byte, pictureBytes), make([]byte, pictureBatch*pictureBytes)
	best := time.Hour
	for range 50 {
		begin := time.Now()
		for i := range pictureBatch {
			copy(to[i*pictureBytes:], from)
		}
		best = min(best, time.Since(begin)/pictureBatch)
	}
	return best
}

func pictureCaller(b *testing.B, by string, at ports, text []byte, q *wire.InferRequest) func() error {
	if by == "grpc" {
		c, err := oipgrpc.NewClient(oipgrpc.ClientOptions{Address: at.grpc})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		return func() error {
			_, err := c.Infer(context.Background(), q, "")
			return err
		}
	}
	c, err := net.Dial("tcp", at.http)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	in := bufio.NewReader(c)
	return func() error {
		if _, err := c.Write(text); err != nil {
			return err
		}
		if status := hear(in); status != 200 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}
}
