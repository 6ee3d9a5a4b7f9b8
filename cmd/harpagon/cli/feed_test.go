package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"image/jpeg"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// cameras answers the frames of at most two streams, and notes what came of each.
func cameras(t *testing.T) (at string, seen func() map[string][]byte) {
	var mu sync.Mutex
	frames := map[string][]byte{} // by stream: the first elements of its frames
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"a","version":"1","extensions":["binary_tensor_data"]}`)
	})
	mux.HandleFunc("GET /v2/models/{name}", func(w http.ResponseWriter, r *http.Request) {
		rate := `,"frame_rate":50,"spread":true,"overlay":{"frame":"frame","boxes":"boxes"}`
		switch r.PathValue("name") {
		case "crossing":
		case "mixed":
			rate = `,"stream_kinds":[{"name":"fast","streams":1,"frame_rate":50},{"name":"slow","streams":2,"frame_rate":10}]`
		default:
			rate = ""
		}
		_, _ = io.WriteString(w, `{"name":"`+r.PathValue("name")+`","versions":["1"],"inputs":[{"name":"frame","datatype":"UINT8","shape":[3,2,2]}],"outputs":[],"parameters":{"ready":true,"slo_ns":60000000000,"rate":100`+rate+`}}`)
	})
	mux.HandleFunc("POST /v2/models/{name}/infer", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		header, err := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
		assert.NoError(t, err)
		call, err := oip.DecodeRequest(body, header)
		if !assert.NoError(t, err) {
			return
		}
		assert.Equal(t, map[string]string{"mixed": "slow"}[r.PathValue("name")], call.Request.Frame.Kind)
		mu.Lock()
		_, open := frames[call.Request.Frame.Stream]
		refused := !open && len(frames) == 2
		if !refused {
			frames[call.Request.Frame.Stream] = append(frames[call.Request.Frame.Stream], call.Request.Inputs[0].Data[0])
		}
		mu.Unlock()
		if refused {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write(oip.EncodeError(&wire.Error{Code: wire.CodeOverloaded, Reason: "0 more fit", Cause: wire.CauseNoPlace}))
			return
		}
		body, header, err = oip.EncodeResponse(&wire.InferResponse{ID: call.Request.ID, Pipeline: "crossing", Outputs: []wire.NamedTensor{{Name: "boxes", Tensor: wire.FromFloat32([]float32{0, 0, 1, 1}, 1, 4)}}}, func(string) bool { return true })
		assert.NoError(t, err)
		w.Header().Set(oip.HeaderLength, strconv.Itoa(header))
		_, _ = w.Write(body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, func() map[string][]byte { mu.Lock(); defer mu.Unlock(); return frames }
}

func TestFeed(t *testing.T) {
	at, seen := cameras(t)
	lines := filepath.Join(t.TempDir(), "frames.csv")
	got := run(t, "feed", "crossing", "--gateway", at, "--duration", "200ms", "--streams", "3", "--json", "--frames", lines)
	require.Equal(t, ExitOK, got.code, got.stderr)
	var all struct {
		Feeds []struct {
			Streams []struct {
				Name         string
				Sent, Unsent int
				NoPlace      int `json:"no_place"`
				InTime       int `json:"in_time"`
				Refused      bool
			}
			Refused   int `json:"refused_streams"`
			Misplaced int
			Frames    map[string]int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &all))
	require.Len(t, all.Feeds[0].Streams, 3)
	assert.Equal(t, 1, all.Feeds[0].Refused)
	assert.Len(t, seen(), 2)
	assert.Zero(t, all.Feeds[0].Misplaced, "each answer carries the number of its frame")
	assert.Len(t, all.Feeds[0].Frames, 9)
	for _, s := range all.Feeds[0].Streams {
		if s.Refused {
			assert.Equal(t, s.Sent, s.NoPlace, "it sends no more")
			assert.Equal(t, s.Sent, all.Feeds[0].Frames["no_place"])
			continue
		}
		assert.Equal(t, 10, s.Sent+s.Unsent, s.Name)
		assert.Equal(t, s.Sent, s.InTime)
	}
	raw, err := os.ReadFile(lines)
	require.NoError(t, err)
	table, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, []string{"stream", "frame", "answer_of", "due_s", "sent_s", "answered_s", "end"}, table[0])
	ends := map[string]int{}
	for _, line := range table[1:] {
		ends[line[6]]++
		if line[6] == "in_time" {
			assert.Equal(t, line[1], line[2])
		}
	}
	for end, n := range all.Feeds[0].Frames {
		assert.Equal(t, n, ends[end], end)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no folder":     {[]string{"crossing", "--frames", filepath.Join(lines, "x.csv")}, "--frames: open "},
		"no streams":    {[]string{"other"}, "other has no streams: declare a stream block, or use harpagon load"},
		"no such video": {[]string{"crossing", "--source", "nothing.mp4"}, "--source nothing.mp4:"},
		"no stream":     {[]string{"crossing", "--streams", "-1"}, "-1 streams"},
		"several kinds": {[]string{"mixed"}, `mixed has streams of several kinds: say which with --kind, "fast", "slow"`},
		"no such kind":  {[]string{"mixed", "--kind", "quick"}, `mixed has no streams of kind "quick"; there is "fast", "slow"`},
		"fails below":   {[]string{"crossing", "--duration", "20ms", "--fail-below", "2"}, "of the worst stream"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append([]string{"feed", "--gateway", at}, c.args...)...)
			assert.NotEqual(t, ExitOK, got.code)
			assert.Contains(t, got.stderr, c.says)
		})
	}
}

// Of several kinds of streams those of one are sent, as many as are planned for and at their rate.
func TestFeedOfAKind(t *testing.T) {
	at, seen := cameras(t)
	got := run(t, "feed", "mixed", "--gateway", at, "--duration", "300ms", "--kind", "slow")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "mixed: 2 slow streams of 10 frames/s, objective 60 s")
	assert.Contains(t, got.stdout, "slow-2")
	assert.Len(t, seen(), 2)
}

// Frames of a video go round, and every stream begins at another place. The program that decodes is
// a stand-in.
func TestFeedOfAVideo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a script")
	}
	folder := t.TempDir()
	program := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "ffmpeg"), []byte("#!/bin/sh\n"+script), 0o700))
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	video := filepath.Join(folder, "a.mp4")
	require.NoError(t, os.WriteFile(video, nil, 0o600))
	frames := strings.Repeat("aaaaaaaaaaaa", 1) + strings.Repeat("b", 12) + strings.Repeat("c", 12)
	program("echo \"$*\" > " + filepath.Join(folder, "said") + "\nprintf " + frames + "\n")
	at, seen := cameras(t)
	got := run(t, "feed", "crossing", "--gateway", at, "--duration", "100ms", "--streams", "2", "--source", video)
	require.Equal(t, ExitOK, got.code, got.stderr)
	said, err := os.ReadFile(filepath.Join(folder, "said"))
	require.NoError(t, err)
	assert.Contains(t, string(said), "-i "+video+" -vf fps=50,scale=2:2 -f rawvideo -pix_fmt rgb24 pipe:1")
	sent := map[byte]bool{}
	for _, first := range seen() {
		for _, x := range first {
			sent[x] = true
		}
	}
	assert.Subset(t, []byte("abc"), keysOf(sent))
	assert.Greater(t, len(sent), 1)

	program("echo moov atom not found >&2; exit 1\n")
	got = run(t, "feed", "crossing", "--gateway", at, "--source", video)
	assert.NotEqual(t, ExitOK, got.code)
	assert.Contains(t, got.stderr, "ffmpeg: moov atom not found")
	got = run(t, "feed", "crossing", "--gateway", at, "--source", "rtsp://nobody")
	assert.NotEqual(t, ExitOK, got.code)
	assert.Contains(t, got.stderr, "moov atom not found")
	program("printf " + frames + "; sleep 60\n")
	got = run(t, "feed", "crossing", "--gateway", at, "--duration", "100ms", "--streams", "2", "--source", "rtsp://somebody")
	require.Equal(t, ExitOK, got.code, got.stderr)
}

// Of each stream a frame a second is drawn, with what was answered for that frame.
func TestFeedDrawsWhatWasFound(t *testing.T) {
	at, _ := cameras(t)
	folder := t.TempDir()
	got := run(t, "feed", "crossing", "--gateway", at, "--duration", "1100ms", "--streams", "2", "--overlay", filepath.Join(folder, "drawn"))
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "of one frame a second of each stream")
	for _, stream := range []string{"camera-1", "camera-2"} {
		file, err := os.Open(filepath.Join(folder, "drawn", stream, "000000.jpg"))
		require.NoError(t, err)
		picture, err := jpeg.Decode(file)
		require.NoError(t, err)
		_ = file.Close()
		assert.Equal(t, 320, picture.Bounds().Dx())
		r, g, b, _ := picture.At(159, 80).RGBA()
		assert.True(t, r > 0xc000 && g < 0x4000 && b < 0x4000, "the side of the box is at the middle: %x %x %x", r, g, b)
		others, err := os.ReadDir(filepath.Join(folder, "drawn", stream))
		require.NoError(t, err)
		for _, f := range others {
			assert.Contains(t, []string{"000000.jpg", "000050.jpg"}, f.Name())
		}
	}
	taken := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(taken, nil, 0o600))
	got = run(t, "feed", "crossing", "--gateway", at, "--duration", "20ms", "--overlay", taken)
	assert.NotEqual(t, ExitOK, got.code)
	assert.Contains(t, got.stderr, "--overlay: mkdir ")
	_, err := drawOverlays(folder, "crossing", pipelines.Overlay{}, 10)
	require.ErrorContains(t, err, "crossing has no overlay block, which declares what is drawn on its frames")
}

// Drawing never blocks frames, what it cannot take is counted, and what cannot be drawn is
// an error.
func TestOverlaysThatAreTooMany(t *testing.T) {
	o := &overlays{folder: t.TempDir(), of: pipelines.Overlay{Frame: "f"}, every: 1, jobs: make(chan picture, 2)}
	for n := range 5 {
		o.add("a", n, nil, &wire.InferResponse{})
	}
	assert.Equal(t, []int{2, 3}, []int{o.taken, o.leftOut})
	o.taken = mostPictures
	o.add("a", 6, nil, &wire.InferResponse{})
	assert.Equal(t, 4, o.leftOut)
	text, err := o.Close()
	require.NoError(t, err)
	assert.Contains(t, text, "; 4 left out")
	o, err = drawOverlays(o.folder, "p", o.of, 0.2)
	require.NoError(t, err)
	assert.True(t, o.wants(3), "slower than one a second: all are drawn")
	o.add("a", 1, nil, &wire.InferResponse{})
	text, err = o.Close()
	require.ErrorContains(t, err, "000001.jpg: there is no f")
	assert.Contains(t, text, "0 pictures")
	var none *overlays
	assert.False(t, none.wants(0))
	text, err = none.Close()
	require.NoError(t, err)
	assert.Empty(t, text)
}

// An address without an answer, one that ends and one that stalls are reported, within
// bounded time.
func TestSourcesThatEndOrStall(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a script")
	}
	folder := t.TempDir()
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	inputs := []pipelines.Port{{Name: "frame", Datatype: "UINT8", Shape: []int64{3, 2, 2}}}
	open := func(script string, patience time.Duration) (*video, error) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "ffmpeg"), []byte("#!/bin/sh\n"+script), 0o700))
		return openVideo(t.Context(), "rtsp://somebody", inputs, 10, patience)
	}
	_, err := open("exec sleep 60\n", time.Millisecond)
	require.ErrorContains(t, err, "no frame has come in 1ms; does anybody answer there?")
	v, err := open("printf aaaaaaaaaaaa; exec sleep 60\n", time.Minute)
	require.NoError(t, err)
	require.NoError(t, v.Fault(time.Minute))
	require.ErrorContains(t, v.Fault(-1), "no frame has come for")
	assert.Equal(t, byte('a'), v.frame(0, 0)["frame"].Data[0])
	v.Close()
	v, err = open("printf aaaaaaaaaaaa; printf bbb\n", time.Minute) // and half a frame
	require.NoError(t, err)
	<-v.ended
	require.ErrorContains(t, v.Fault(time.Minute), "it has ended, and streams have sent its last frame")
	assert.Equal(t, byte('a'), v.frame(0, 0)["frame"].Data[0])
	v.Close()
}

// What ffmpeg itself makes of sources that go wrong: frames change their size and timestamps go back in
// the middle of one, and another address does not answer.
func TestSourcesThatFfmpegReads(t *testing.T) {
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("needs ffmpeg")
	}
	folder := t.TempDir()
	var both []byte
	for colour, size := range map[string]string{"red": "64x48", "blue": "32x32"} {
		part := filepath.Join(folder, colour+".ts")
		said, err := exec.Command(ffmpeg, "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", "color="+colour+":s="+size+":r=25:d=2", "-c:v", "mpeg2video", part).CombinedOutput()
		require.NoError(t, err, "%s", said)
		raw, err := os.ReadFile(part)
		require.NoError(t, err)
		both = append(both, raw...) // each begins at the same time
	}
	file := filepath.Join(folder, "both.ts")
	require.NoError(t, os.WriteFile(file, both, 0o600))
	inputs := []pipelines.Port{{Name: "frame", Datatype: "UINT8", Shape: []int64{4, 6, 3}}}
	v, err := openVideo(t.Context(), file, inputs, 5, time.Minute)
	require.NoError(t, err)
	colours := map[int]int{} // 0 of red, 2 of blue
	for _, frame := range v.kept {
		require.Equal(t, []int64{4, 6, 3}, frame.Shape)
		strongest := 0
		if frame.Data[2] > frame.Data[0] {
			strongest = 2
		}
		colours[strongest]++
	}
	assert.Len(t, colours, 2, "both parts are there")
	assert.InDelta(t, 20, len(v.kept), 2)
	v.Close()
	v, err = openVideo(t.Context(), "file://"+file, inputs, 5, time.Minute)
	require.NoError(t, err)
	<-v.ended
	require.ErrorContains(t, v.Fault(time.Minute), "it has ended")
	assert.Equal(t, []int64{4, 6, 3}, v.frame(0, 0)["frame"].Shape)
	v.Close()

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	_, err = openVideo(t.Context(), "rtsp://"+silent.Addr().String()+"/camera", inputs, 5, 300*time.Millisecond)
	require.ErrorContains(t, err, "no frame has come in 300ms; does anybody answer there?")
}

func keysOf(m map[byte]bool) (all []byte) {
	for k := range m {
		all = append(all, k)
	}
	return all
}
