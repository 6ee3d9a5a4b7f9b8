package tracks_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

func TestMain(m *testing.M) {
	local.ChildMain()
	m.Run()
}

// road draws seconds of the example's video and decodes it to frames of the shape, rate a second.
func road(t *testing.T, seconds int, shape []int64, rate float64) (frames [][]byte) {
	t.Helper()
	for _, program := range []string{"ffmpeg", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs ", program)
		}
	}
	encoders, err := exec.Command("ffmpeg", "-hide_banner", "-encoders").Output()
	require.NoError(t, err)
	if !strings.Contains(string(encoders), "libx264") {
		t.Skip("needs an ffmpeg with libx264")
	}
	file := filepath.Join(t.TempDir(), "road.mp4")
	said, err := exec.Command("road/draw.sh", file, fmt.Sprint(seconds)).CombinedOutput()
	require.NoError(t, err, "%s", said)
	height, width := shape[0], shape[1]
	raw, err := exec.Command("ffmpeg", "-nostdin", "-loglevel", "error", "-i", file,
		"-vf", fmt.Sprintf("fps=%g,scale=%d:%d", rate, width, height), "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1").Output()
	require.NoError(t, err)
	for size := int(height * width * shape[2]); len(raw) >= size; raw = raw[size:] {
		frames = append(frames, raw[:size:size])
	}
	require.Len(t, frames, int(float64(seconds)*rate))
	return frames
}

// TestVehiclesKeepTheirIdentities shows a drawn road to two cameras, the second from its end to its
// beginning: each vehicle, known by its colour, keeps one identity, which no other of its camera has.
func TestVehiclesKeepTheirIdentities(t *testing.T) {
	read, diags := hcl.Load(hcl.LoadOptions{}, "road")
	require.False(t, diags.HasErrors(), diags)
	p := &read.Document.Pipelines[0]
	frames := road(t, 5, p.Inputs[0].Shape, p.Stream.Rate)
	p.SLO = time.Minute // of a machine that is busy
	s, err := local.Start(t.Context(), local.Options{Document: &read.Document, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	var identities [2]map[string]map[int64]int // by camera and colour: frames with each identity
	var cameras sync.WaitGroup
	for camera := range identities {
		cameras.Go(func() {
			stream := s.Client().Stream(t.Context(), p.Name, fmt.Sprint("camera ", camera))
			defer stream.Close()
			identities[camera] = map[string]map[int64]int{}
			for n := range frames {
				at := n
				if camera == 1 {
					at = len(frames) - 1 - n
				}
				colours, ids := seen(t, stream, frames[at], p.Inputs[0].Shape, n == 0)
				for i, colour := range colours {
					assert.Equal(t, colour == "", ids[i] < 0, "frame %d of camera %d: %q has identity %d", n, camera, colour, ids[i])
					if colour != "" {
						if identities[camera][colour] == nil {
							identities[camera][colour] = map[int64]int{}
						}
						identities[camera][colour][ids[i]]++
					}
				}
				time.Sleep(p.Stream.Period()) // one that comes sooner is too fast
			}
		})
	}
	cameras.Wait()
	var first [2]map[string]int64
	for camera, of := range identities {
		first[camera] = map[string]int64{}
		taken := map[int64]string{}
		assert.Len(t, of, 4, "of camera %d: %v", camera, of)
		for colour, ids := range of {
			assert.Len(t, ids, 1, "%s at camera %d", colour, camera)
			for id, n := range ids {
				assert.Greater(t, n, len(frames)/2, "%s at camera %d", colour, camera)
				assert.Empty(t, taken[id], "%s at camera %d", colour, camera)
				taken[id], first[camera][colour] = colour, id
			}
		}
	}
	assert.NotEqual(t, first[0], first[1], "what one camera saw is nothing to the other")
}

// seen sends a frame and gives what was found on it.
func seen(t *testing.T, stream *sdk.Stream, frame []byte, shape []int64, fresh bool) (colours []string, ids []int64) {
	if !assert.NoError(t, stream.Send(sdk.Inputs{"frame": sdk.Uint8(frame, shape...)})) {
		return nil, nil
	}
	out, err := stream.Receive()
	if !assert.NoError(t, err) {
		return nil, nil
	}
	assert.Equal(t, fresh, out.Fresh())
	colours, err = out.Strings("colours")
	assert.NoError(t, err)
	ids, err = out.Int64s("ids")
	assert.NoError(t, err)
	assert.Len(t, ids, len(colours))
	return colours, ids
}
