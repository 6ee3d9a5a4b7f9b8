package sdk_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/sdktest"
)

// Results come in the order of frames, by every transport, and a stream too many is refused.
func TestStreamsByEveryTransport(t *testing.T) {
	s := start(t, time.Millisecond, time.Minute, "", func(p *pipelines.Pipeline) {
		p.Stream = pipelines.Stream{Rate: 1000, Count: 1, Jitter: 999 * time.Microsecond}
		p.Rate = p.Stream.Total()
	})
	for name, c := range map[string]*sdk.Client{"in process": s.inProcess, "HTTP": s.overHTTP, "gRPC": s.overGRPC} {
		t.Run(name, func(t *testing.T) {
			const frames = 50
			st := c.Stream(t.Context(), "p", "camera 1")
			go func() {
				for i := range frames {
					send := st.Send
					if i == frames-1 {
						send = st.SendLast
					}
					if send(sdk.Inputs{"x": sdk.Float32([]float32{float32(i), 0}, 2)}) != nil {
						return
					}
					time.Sleep(2 * time.Millisecond)
				}
			}()
			for i := 0; ; i++ {
				r, err := st.Receive()
				if errors.Is(err, io.EOF) {
					require.Equal(t, frames, i, "one for each")
					break
				}
				if err != nil {
					require.ErrorIs(t, err, sdk.ErrOverloaded, "frames may come in heaps on a busy machine")
					continue
				}
				require.NotNil(t, r)
			}
			require.Eventually(t, func() bool {
				one := c.Stream(t.Context(), "p", "camera 2")
				require.NoError(t, one.SendLast(sdk.Inputs{"x": sdk.Float32([]float32{1, 0}, 2)}))
				_, err := one.Receive()
				return err == nil
			}, time.Minute, 5*time.Millisecond, "its place is free")
		})
	}
	long := s.overHTTP.Stream(t.Context(), "p", "camera 3")
	require.Eventually(t, func() bool {
		require.NoError(t, long.Send(sdk.Inputs{"x": sdk.Float32([]float32{1, 0}, 2)}))
		_, err := long.Receive()
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	other := s.overGRPC.Stream(t.Context(), "p", "camera 4")
	require.NoError(t, other.Send(sdk.Inputs{"x": sdk.Float32([]float32{1, 0}, 2)}))
	_, err := other.Receive()
	require.ErrorIs(t, err, sdk.ErrOverloaded)
	assert.ErrorContains(t, err, "0 more fit")
}

// Frames are on their way in the order in which they were sent, options are each frame's
// own, and a stream that is closed or has no name returns an error.
func TestFramesOfAStreamBeginInOrder(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	c := sdk.NewClient(sdktest.Fake{"p": func(ctx context.Context, in sdk.Inputs) (sdktest.Outputs, error) {
		x, err := in["x"].Float32s()
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		seen[string(rune('a'+int(x[0])))]++
		return sdktest.Outputs{"y": in["x"]}, nil
	}})
	shared := append(make([]sdk.InferOption, 0, 4), sdk.WithID("x"))
	var all sync.WaitGroup
	const streams, frames = 4, 100
	for i := range streams {
		all.Go(func() {
			s := c.Stream(t.Context(), "p", string(rune('a'+i)))
			go func() {
				for range frames {
					_ = s.Send(sdk.Inputs{"x": sdk.Float32([]float32{float32(i)})}, shared...)
				}
				s.Close()
			}()
			n := 0
			for ; ; n++ {
				if _, err := s.Receive(); errors.Is(err, io.EOF) {
					break
				}
			}
			assert.Equal(t, frames, n)
		})
	}
	all.Wait()
	for i := range streams {
		assert.Equal(t, frames, seen[string(rune('a'+i))])
	}
	s := c.Stream(t.Context(), "p", "z")
	require.NoError(t, s.SendLast(sdk.Inputs{"x": sdk.Float32([]float32{1})}))
	s.Close()
	require.ErrorIs(t, s.Send(nil), sdk.ErrInvalid)
	require.ErrorIs(t, s.SendLast(nil), sdk.ErrInvalid)
	require.ErrorIs(t, c.Stream(t.Context(), "p", "").Send(nil), sdk.ErrInvalid)
}
