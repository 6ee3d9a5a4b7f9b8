package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// TestManyLargeBodiesAtOnce sends 50 bodies of 63 MiB to a gateway that may hold 200.
func TestManyLargeBodiesAtOnce(t *testing.T) {
	const bodies, size, bound = 50, 63 << 20, 200 << 20
	body, header, err := oip.EncodeRequest(&wire.InferRequest{Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromUint8(make([]byte, size))}}}, 0)
	require.NoError(t, err)
	held := gateway.NewBytes(gateway.ByteLimits{Total: bound})
	admitted, answer := make(chan bool, bodies), make(chan bool)
	url := served(t, New(&backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		admitted <- true
		<-answer
		return &wire.InferResponse{}, nil
	}}, Options{Bytes: held}))

	var mu sync.Mutex
	statuses := map[int]int{}
	gone := 0
	var all sync.WaitGroup
	for range bodies {
		all.Go(func() {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v2/models/p/infer", bytes.NewReader(body))
			if err != nil {
				return
			}
			q.Header.Set(oip.HeaderLength, strconv.Itoa(header))
			r, err := http.DefaultClient.Do(q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				gone++ // refused while it was sending, which not every client sees as an answer
				return
			}
			said, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			statuses[r.StatusCode]++
			if r.StatusCode == http.StatusTooManyRequests {
				if !strings.Contains(string(said), `"code":"overloaded"`) || r.Header.Get("Retry-After") == "" {
					t.Errorf("refused without a reason: %s", said)
				}
			}
		})
	}
	for range bound / size {
		<-admitted
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return statuses[http.StatusTooManyRequests]+gone == bodies-bound/size
	}, time.Minute, 10*time.Millisecond, "the others are refused while these wait")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	require.LessOrEqual(t, held.Most(), int64(bound))
	require.Less(t, m.HeapAlloc, uint64(bound+size+(64<<20)), "with the one body that all clients send")
	close(answer)
	all.Wait()
	require.Equal(t, bound/size, statuses[http.StatusOK], "%v, %d gone", statuses, gone)
	t.Logf("statuses %v, gone while sending %d, most held %d MiB, heap %d MiB", statuses, gone, held.Most()>>20, m.HeapAlloc>>20)
	require.Zero(t, held.Now())
}

// TestABodyWithoutALengthIsCountedAsItComes sends more than there is room for, in chunks.
func TestABodyWithoutALengthIsCountedAsItComes(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{PerPipeline: 4 << 20})
	h := New(&backend{}, Options{Bytes: held})
	r := httptest.NewRequest(http.MethodPost, "/v2/models/p/infer", &endless{})
	r.ContentLength = -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), "--max-bytes-per-pipeline")
	require.LessOrEqual(t, held.Most(), int64(4<<20))
	require.Zero(t, held.Now())
}

// TestAnswersAreCounted requests more than there is room for.
func TestAnswersAreCounted(t *testing.T) {
	for size, status := range map[int]int{1 << 20: http.StatusOK, 5 << 20: http.StatusTooManyRequests} {
		held := gateway.NewBytes(gateway.ByteLimits{Total: 4 << 20})
		h := New(&backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
			return &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "y", Tensor: wire.FromUint8(make([]byte, size))}}}, nil
		}}, Options{Bytes: held})
		body := `{"inputs": [], "parameters": {"binary_data_output": true}}`
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v2/models/p/infer", strings.NewReader(body)))
		require.Equal(t, status, w.Code, w.Body.String())
		if status == http.StatusOK {
			require.Greater(t, held.Most(), int64(size))
		} else {
			require.Contains(t, w.Body.String(), "--max-bytes")
		}
		require.Zero(t, held.Now())
	}
}

// TestNumbersCountAsWhatTheyBecome sends numbers that take four times as much in memory as
// they do in JSON.
func TestNumbersCountAsWhatTheyBecome(t *testing.T) {
	const numbers = 1 << 18
	body := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d],"datatype":"INT64","data":[0%s]}]}`, numbers, strings.Repeat(",0", numbers-1))
	for bound, status := range map[int64]int{1 << 20: http.StatusTooManyRequests, 4 << 20: http.StatusOK} {
		held := gateway.NewBytes(gateway.ByteLimits{Total: bound})
		h := New(&backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
			return &wire.InferResponse{}, nil
		}}, Options{Bytes: held})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v2/models/p/infer", strings.NewReader(body)))
		require.Equal(t, status, w.Code, w.Body.String())
		require.Zero(t, held.Now())
	}
}

// TestPagesCountWhileTheyAreWritten requests a page of more than there is room for, one of
// less, and one that is written piece by piece.
func TestPagesCountWhileTheyAreWritten(t *testing.T) {
	held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 20})
	for path, status := range map[string]int{"/less": http.StatusTeapot, "/more": http.StatusTooManyRequests, "/pieces": http.StatusTeapot} {
		h := Counted(held, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			for range map[string]int{"/less": 400, "/more": 2000, "/pieces": 2000}[r.URL.Path] {
				_, err := w.Write(make([]byte, 1<<10))
				require.NoError(t, err)
				if r.URL.Path == "/pieces" {
					require.NoError(t, http.NewResponseController(w).Flush())
				}
			}
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		require.Equal(t, status, w.Code, path)
		if status == http.StatusTeapot {
			require.Equal(t, map[string]int{"/less": 400 << 10, "/pieces": 2000 << 10}[path], w.Body.Len(), path)
		}
		require.Zero(t, held.Now())
	}
	require.Positive(t, held.Most())
}
