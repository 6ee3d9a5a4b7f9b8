package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
		rate := `,"frame_rate":50,"spread":true`
		if r.PathValue("name") != "crossing" {
			rate = ""
		}
		_, _ = io.WriteString(w, `{"name":"`+r.PathValue("name")+`","versions":["1"],"inputs":[{"name":"frame","datatype":"UINT8","shape":[3,2,2]}],"outputs":[],"parameters":{"ready":true,"slo_ns":60000000000,"rate":100`+rate+`}}`)
	})
	mux.HandleFunc("POST /v2/models/crossing/infer", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		header, err := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
		assert.NoError(t, err)
		call, err := oip.DecodeRequest(body, header)
		if !assert.NoError(t, err) {
			return
		}
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
		body, header, err = oip.EncodeResponse(&wire.InferResponse{ID: call.Request.ID, Pipeline: "crossing", Outputs: call.Request.Inputs}, func(string) bool { return true })
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
		"fails below":   {[]string{"crossing", "--duration", "20ms", "--fail-below", "2"}, "of the worst stream"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append([]string{"feed", "--gateway", at}, c.args...)...)
			assert.NotEqual(t, ExitOK, got.code)
			assert.Contains(t, got.stderr, c.says)
		})
	}
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

// An address that nobody answers at, one that ends and one that stalls are told, and bounded.
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

func keysOf(m map[byte]bool) (all []byte) {
	for k := range m {
		all = append(all, k)
	}
	return all
}
