//go:build !noserver

package local_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

// TestAProgramOfOnesOwnServes brings up the example, whose command imports a file that
// no argument names.
func TestAProgramOfOnesOwnServes(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	s, err := local.Start(t.Context(), local.Options{Files: []string{"../../examples/process/flowers.hcl"}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	out, err := s.Client().Infer(t.Context(), "flowers", sdk.Inputs{"features": sdk.Float32([]float32{5.1, 3.5, 1.4, 0.2}, 4)})
	require.NoError(t, err)
	words, err := out.Strings("label")
	require.NoError(t, err)
	assert.Equal(t, []string{"short"}, words)
}

// scene is a camera's: things move straight through the picture, and some are hidden now and then.
func scene(camera, frame int) (boxes [8][4]float32) {
	rng := rand.New(rand.NewPCG(uint64(camera), 7))
	for i := range boxes {
		x, y, dx, dy := rng.Float64(), rng.Float64(), 0.04*(rng.Float64()-0.5), 0.04*(rng.Float64()-0.5)
		from, hidden := rng.IntN(20), rng.IntN(9)
		x, y = x+dx*float64(frame), y+dy*float64(frame)
		if frame >= from && (frame+i)%9 != hidden && x > 0 && x < 1 && y > 0 && y < 1 {
			boxes[i] = [4]float32{float32(x), float32(y), 0.05, 0.1}
		}
	}
	return boxes
}

// identities is what the example's tracker does with the frames of one camera.
type identities struct {
	following int64
	known     []identity
}

type identity struct {
	id     int64
	x, y   float64
	hidden int
}

func (s *identities) track(boxes [8][4]float32) (ids [8]int64) {
	type pair struct {
		distance float64
		k, i     int
	}
	var pairs []pair
	centre := func(b [4]float32) (x, y float64) {
		return float64(b[0]) + float64(b[2])/2, float64(b[1]) + float64(b[3])/2
	}
	for i, b := range boxes {
		ids[i] = -1
		for k, of := range s.known {
			x, y := centre(b)
			if d := (x-of.x)*(x-of.x) + (y-of.y)*(y-of.y); b[2] > 0 && d <= 0.1*0.1 {
				pairs = append(pairs, pair{d, k, i})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.distance, b.distance), a.k-b.k, a.i-b.i) })
	taken := map[int]bool{}
	for _, p := range pairs {
		if !taken[p.k] && ids[p.i] < 0 {
			taken[p.k], ids[p.i] = true, s.known[p.k].id
		}
	}
	var next []identity
	for i, b := range boxes {
		if b[2] == 0 {
			continue
		}
		if ids[i] < 0 {
			ids[i] = s.following
			s.following++
		}
		x, y := centre(b)
		next = append(next, identity{ids[i], x, y, 0})
	}
	for k, of := range s.known {
		if of.hidden++; !taken[k] && of.hidden <= 5 {
			next = append(next, of)
		}
	}
	s.known = next
	return ids
}

// killPrograms ends the processes below this one that run a file, without a word.
func killPrograms(t *testing.T, file string) (n int) {
	all, err := filepath.Glob("/proc/[0-9]*")
	assert.NoError(t, err)
	for _, of := range all {
		line, _ := os.ReadFile(of + "/cmdline")
		words := strings.Split(string(line), "\x00")
		if len(words) < 2 || filepath.Base(words[0]) != "python3" || filepath.Base(words[1]) != file {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(of))
		assert.NoError(t, err)
		if isBelow(pid) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// isBelow reports whether a process descends from this one.
func isBelow(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid == os.Getpid()
}

// sendScenes sends those of a camera until ended is closed.
func sendScenes(t *testing.T, stream *sdk.Stream, camera int, ended <-chan struct{}) {
	defer stream.Close()
	for n := 0; ; n++ {
		var flat []float32
		for _, b := range scene(camera, n%200) {
			flat = append(flat, b[:]...)
		}
		assert.NoError(t, stream.Send(sdk.Inputs{"boxes": sdk.Float32(flat, 8, 4)}))
		select {
		case <-ended:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// receiveIdentities holds that those of a camera are those of a tracker without interruptions.
func receiveIdentities(t *testing.T, stream *sdk.Stream, camera int, answered *atomic.Int64) {
	var alone identities
	for n := 0; ; n++ {
		out, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			continue // it was not answered
		}
		ids, err := out.Int64s("ids")
		assert.NoError(t, err)
		want := alone.track(scene(camera, n%200))
		assert.Equal(t, answered.Load() == 0, out.Fresh(), "frame %d of camera %d", n, camera)
		assert.Equal(t, want[:], ids, "frame %d of camera %d", n, camera)
		answered.Add(1)
	}
}

// TestIdentitiesSurviveKills sends scenes of several cameras through the example's tracker, and kills its processes
// meanwhile: the identities are those of uninterrupted trackers, of the frames that were
// answered.
func TestIdentitiesSurviveKills(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	s, err := local.Start(t.Context(), local.Options{Files: []string{"../../examples/tracks"}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	const cameras, kills = 8, 3
	var under sync.WaitGroup
	var answered [cameras]atomic.Int64
	ended := make(chan struct{})
	for c := range cameras {
		stream := s.Client().Stream(t.Context(), "tracks", fmt.Sprint("camera ", c))
		under.Go(func() { sendScenes(t, stream, c, ended) })
		under.Go(func() { receiveIdentities(t, stream, c, &answered[c]) })
	}
	go func() { // as long as it takes
		defer close(ended)
		for kill := range kills + 1 {
			var before [cameras]int64
			for c := range before {
				before[c] = answered[c].Load()
			}
			assert.Eventually(t, func() bool {
				for c := range before {
					if answered[c].Load() < before[c]+8 {
						return false
					}
				}
				return true
			}, 2*time.Minute, 10*time.Millisecond, "after %d kills", kill)
			if kill < kills {
				assert.Positive(t, killPrograms(t, "track.py"))
			}
		}
	}()
	under.Wait()
}
