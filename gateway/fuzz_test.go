package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// claims are messages of an executor, drawn from any bytes: four make one, of small
// numbers, so that they name batches that there are, or were.
func claims(hello attach.Hello, raw []byte) (all []*attach.Message) {
	for ; len(raw) >= 4; raw = raw[4:] {
		id, n, at := uint64(raw[1]%8), int(raw[2]%4), time.Duration(int8(raw[3]))*time.Millisecond
		m := new(attach.Message)
		switch raw[0] % 10 {
		case 0, 1, 2: // most do answer
			r := &attach.Result{ID: id, Waited: at, Compute: at, Away: raw[3]&1 != 0, Untouched: raw[3]&2 != 0}
			for range n {
				answer := []wire.Tensor{wire.FromFloat32([]float32{2, 3}, 2)}
				switch raw[3] % 5 {
				case 1:
					answer = nil
				case 2:
					answer[0].Data = answer[0].Data[1:]
				}
				r.Items = append(r.Items, answer)
			}
			if raw[2]&64 != 0 {
				r.Err = wire.Errorf([]wire.Code{wire.CodeUnavailable, wire.CodeInternal, wire.CodeInvalid}[n%3], "m", "it says so")
			}
			if raw[2]&128 != 0 {
				r.Errs = make([]*wire.Error, n)
			}
			m.Result = r
		case 3:
			m.Soon = &attach.Soon{ID: id, Compute: at}
		case 4:
			m.Ready = &attach.Ready{}
		case 5:
			m.Done = &attach.Done{Batch: id, Failed: n}
		case 6:
			m.Drain = &attach.Drain{Reason: "it is tired"}
		case 7:
			again := hello
			m.Hello = &again
		case 8:
			m.Batch = &attach.Batch{ID: id}
		case 9: // none at all
		}
		all = append(all, m)
	}
	return all
}

// FuzzAttach has an executor send arbitrary messages beside one that works: every request ends
// once, with its answer or a typed error, and leaves no state behind.
func FuzzAttach(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 0, 1, 1, 0, 0, 2, 2, 3})
	f.Add([]byte{3, 1, 0, 9, 0, 1, 1, 1, 4, 0, 0, 0, 0, 3, 65, 2, 6, 0, 0, 0})
	f.Add([]byte{7, 0, 0, 0, 0, 1, 129, 0, 8, 1, 0, 0, 5, 1, 1, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 1, 1, 0, 43, 1, 18, 0, 0, 2, 1, 232}) // an output whose data is a byte short
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		synctest.Test(t, func(t *testing.T) { attachAnything(t, raw) })
	})
}

// TestAnAnswerIsCheckedBeforeItIsPassedOn has an executor give outputs that are none.
func TestAnAnswerIsCheckedBeforeItIsPassedOn(t *testing.T) {
	short := wire.FromFloat32([]float32{1, 2}, 2)
	short.Data = short.Data[1:]
	for name, c := range map[string]struct {
		answer []wire.Tensor
		says   string
	}{
		"fewer outputs": {nil, "an answer has 0 outputs"},
		"less data":     {[]wire.Tensor{short}, `output "y" of an answer: shape [2] of FP32 needs 2 elements of 4 bytes, but there are 7 bytes of data`},
		"no datatype":   {[]wire.Tensor{{Shape: []int64{2}}}, `output "y" of an answer: unknown datatype ""`},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := kind{sig: addOne.sig, run: func([]wire.Tensor) []wire.Tensor { return c.answer }}
			specs := map[string]spec{"m": {kind: wrong, executors: 1}}
			g, workers := serve(t, Options{}, deployment(single(time.Second), 1, specs), specs)
			defer stop(g, workers)
			_, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
			var typed *wire.Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, wire.CodeInternal, typed.Code)
			require.Contains(t, typed.Reason, c.says)
		})
	}
}

func attachAnything(t *testing.T, raw []byte) {
	specs := map[string]spec{"m": {kind: addOne, executors: 2, batch: 2, duration: 5 * time.Millisecond}}
	d := deployment(single(100*time.Millisecond), 1, specs)
	g, workers := serve(t, Options{Grace: 50 * time.Millisecond}, d, specs)
	odd := workers["m/1/1"]
	_ = odd.stream.Close()
	<-odd.done
	spoken := make(chan struct{})
	odd.serving = func(s attach.Stream) {
		defer close(spoken)
		for _, m := range claims(odd.hello, raw) {
			if s.Send(m) != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		for {
			if _, err := s.Recv(); err != nil {
				break
			}
		}
		_ = s.Close()
	}
	odd.attach(g)
	synctest.Wait()
	var ends sync.WaitGroup
	for i := range 8 {
		ends.Go(func() {
			time.Sleep(time.Duration(i) * 2 * time.Millisecond)
			r, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
			if err == nil {
				assert.Equal(t, []float32{2, 3}, floats(tensors(r.Outputs)["y"]))
				return
			}
			var typed *wire.Error
			assert.ErrorAs(t, err, &typed)
		})
	}
	ends.Wait()
	require.Zero(t, g.Measures("p").InFlight)
	stop(g, workers)
	<-spoken
}
