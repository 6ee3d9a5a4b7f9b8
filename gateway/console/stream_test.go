package console

import (
	"bytes"
	"image/jpeg"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/overlay"
	"github.com/harpagon/harpagon/wire/secure"
)

const secret = "abcdefabcdefabcdefabcdefabcdefab"

// filmed is a console of a service with one stream, and what may be changed of it.
type filmedConsole struct {
	allowed, guarded bool
	frame            overlay.Frame
	busy             bool // others look
	asked            int
}

func (f *filmedConsole) options() Options {
	o := new(source).options()
	if f.guarded {
		o.Callers = secure.Credentials{Token: secret}.Guard()
	}
	o.Source.Measures = func() []autoscale.Measures {
		m := measured()
		m.Streams = &admission.StreamShares{Open: 1, Most: 1, Worst: 1, Median: 1}
		return []autoscale.Measures{m}
	}
	o.Source.Streams = func(string, int) []admission.StreamLine {
		return []admission.StreamLine{{Name: "<camera>", ID: "0a", Frames: 7, Attainment: 0.9, TooFast: 2}}
	}
	o.Source.Pipeline = func(name string) (pipelines.Pipeline, bool) {
		p, _ := declared(name)
		p.Stream = pipelines.Stream{Rate: 5, Count: 1}
		p.Overlay = pipelines.Overlay{Frame: "f", Console: f.allowed}
		return p, name == "traffic"
	}
	o.Source.Frame = func(name, stream string) (overlay.Frame, bool) {
		f.asked++
		return f.frame, !f.busy && name == "traffic" && stream == "0a"
	}
	return o
}

// The last frame of a stream is shown where its owner allows that and the viewer has shown credentials,
// and otherwise the page shows why not.
func TestTheLastFrameOfAStream(t *testing.T) {
	came := overlay.Frame{At: time.Unix(1e9, 5e6), Tensors: map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{3, 20, 30})}}
	wrong := overlay.Frame{At: time.Unix(1e9, 0), Tensors: map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{20})}}
	for name, c := range map[string]struct {
		of     filmedConsole
		says   string
		status int // of the picture
		linked bool
	}{
		"not allowed":    {filmedConsole{guarded: true, frame: came}, "no overlay block with console = true", http.StatusForbidden, false},
		"no credentials": {filmedConsole{allowed: true, frame: came}, "set HARPAGON_TOKEN, or give it --tokens", http.StatusForbidden, false},
		"none yet":       {filmedConsole{allowed: true, guarded: true}, "shown when the next has come", http.StatusNotFound, true},
		"others look":    {filmedConsole{allowed: true, guarded: true, frame: came, busy: true}, "Others look at", http.StatusNotFound, true},
		"shown":          {filmedConsole{allowed: true, guarded: true, frame: came}, "answered 01:46:40 UTC", http.StatusOK, true},
		"undrawable":     {filmedConsole{allowed: true, guarded: true, frame: wrong}, "answered 01:46:40 UTC", http.StatusUnprocessableEntity, true},
	} {
		t.Run(name, func(t *testing.T) {
			console := New(t.Context(), c.of.options())
			token := []string{"Authorization", "Bearer " + secret}
			page := get(console, "/console/streams/traffic/0a", token...)
			require.Equal(t, http.StatusOK, page.Code)
			body := page.Body.String()
			assert.Contains(t, body, c.says)
			for _, said := range []string{"<h1>&lt;camera&gt;</h1>", "in time, of its last 7 frames", "90 %", "and 2 frames dropped", `href="/console/services/traffic"`} {
				assert.Contains(t, body, said)
			}
			assert.Contains(t, page.Header().Get("Content-Security-Policy"), "img-src 'self'")
			service := get(console, "/console/services/traffic", token...).Body.String()
			assert.Equal(t, c.linked, strings.Contains(service, `<a href="/console/streams/traffic/0a">&lt;camera&gt;</a>`))
			src := regexp.MustCompile(`<img src="([^"]+)"`).FindStringSubmatch(body)
			assert.Equal(t, c.status == http.StatusOK || c.status == http.StatusUnprocessableEntity, src != nil)
			at := "/console/frame?service=traffic&stream=0a"
			if src != nil {
				at = strings.ReplaceAll(src[1], "&amp;", "&")
				u, err := url.Parse(at)
				require.NoError(t, err)
				assert.NotEmpty(t, u.Query().Get("at"), "a later frame has another address")
			}
			for range 2 {
				picture := get(console, at, token...)
				require.Equal(t, c.status, picture.Code)
				if c.status == http.StatusOK {
					assert.Equal(t, "image/jpeg", picture.Header().Get("Content-Type"))
					assert.Equal(t, "no-store", picture.Header().Get("Cache-Control"))
					_, err := jpeg.Decode(bytes.NewReader(picture.Body.Bytes()))
					require.NoError(t, err)
				}
			}
			if c.of.guarded {
				assert.Equal(t, http.StatusUnauthorized, get(console, at).Code)
				assert.Equal(t, http.StatusUnauthorized, get(console, "/console/streams/traffic/0a").Code)
			}
		})
	}
}

func TestStreamsThatAreNotThere(t *testing.T) {
	f := filmedConsole{allowed: true, guarded: true}
	c := New(t.Context(), f.options())
	token := []string{"Authorization", "Bearer " + secret}
	for path, status := range map[string]int{
		"/console/streams/traffic/0b": http.StatusOK, "/console/streams/other/0a": http.StatusNotFound, "/console/streams/traffic": http.StatusNotFound, "/console/streams/": http.StatusNotFound,
		"/console/frame": http.StatusForbidden, "/console/frame?service=other&stream=0a": http.StatusForbidden, "/console/frame?service=traffic&stream=0b": http.StatusNotFound,
	} {
		assert.Equal(t, status, get(c, path, token...).Code, path)
	}
	assert.Contains(t, get(c, "/console/streams/traffic/0b", token...).Body.String(), "This stream is not open at this gateway.")
}

// A picture is drawn once for all who look, and few are kept.
func TestPicturesAreDrawnOnce(t *testing.T) {
	f := filmedConsole{allowed: true, guarded: true, frame: overlay.Frame{At: time.Unix(1, 0), Tensors: map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{3, 20, 30})}}}
	o := f.options()
	o.Source.Frame = func(string, string) (overlay.Frame, bool) { return f.frame, true }
	c := New(t.Context(), o)
	first := c.draw("traffic", "0a")
	assert.Same(t, &first.jpeg[0], &c.draw("traffic", "0a").jpeg[0])
	f.frame.At = time.Unix(2, 0)
	assert.NotSame(t, &first.jpeg[0], &c.draw("traffic", "0a").jpeg[0])
	for i := range 3 * mostPictures {
		c.draw("traffic", strings.Repeat("x", i))
		assert.LessOrEqual(t, len(c.drawn.of), mostPictures)
	}
}
