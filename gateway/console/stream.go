package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
)

// streamPage is the page of one stream.
type streamPage struct {
	frame
	Name                 string
	Service, ServiceName string // a link, and what it reads
	Open                 bool
	Stream               streamView
	Frames               string
	Picture              string // address of the last frame; empty where there is none
	Answered             time.Time
	Why                  string // there is none
}

// shows reports whether frames of a service's streams may be seen: its owner allows it, and the viewer
// has shown credentials. A console without credentials is open to all programs of its machine, so it
// shows no frames.
func (c *Console) shows(service string) bool {
	declared, ok := c.options.Source.Pipeline(service)
	return ok && declared.Overlay.Console && c.options.Source.Frame != nil && !c.options.Callers.Open()
}

func linkOfStream(service, id string) string {
	return Root + "streams/" + url.PathEscape(service) + "/" + url.PathEscape(id)
}

// streamPage is the page of SERVICE/ID; nil where no such service runs.
func (c *Console) streamPage(s snapshot, name string) *streamPage {
	at := strings.LastIndexByte(name, '/')
	if at < 0 || c.options.Source.Streams == nil {
		return nil
	}
	service, id := name[:at], name[at+1:]
	declared, ok := c.options.Source.Pipeline(service)
	if !ok || len(declared.StreamKinds()) == 0 {
		return nil
	}
	p := &streamPage{frame: c.frame(s, "Stream", Root+"streams/"+name), Name: "A stream", Service: linkOf(service), ServiceName: service}
	for _, line := range c.options.Source.Streams(service, pipelines.MaxStreams) {
		if line.ID == id {
			p.open(line)
		}
	}
	switch {
	case !declared.Overlay.Console:
		p.Why = "The pipeline does not allow to show frames: its declaration has no overlay block with console = true."
	case c.options.Callers.Open():
		p.Why = "Frames are shown only by a gateway that requires credentials: set HARPAGON_TOKEN, or give it --tokens."
	case c.options.Source.Frame == nil:
		p.Why = "This gateway shows no frames."
	default:
		p.look(c, service, id)
	}
	return p
}

func (p *streamPage) open(line admission.StreamLine) {
	p.Open, p.Stream, p.Name, p.Title = true, viewStream(line), line.Name, line.Name
	p.Frames = quantity.Count(int(line.Frames), "frame")
}

// look reads the last frame, which is kept from then on.
func (p *streamPage) look(c *Console, service, id string) {
	switch f, ok := c.options.Source.Frame(service, id); {
	case !ok:
		p.Why = "Others look at as many streams as are shown at a time; this one is when they have gone."
	case f.At.IsZero():
		p.Why = "It is kept from now on, and shown when the next has come."
	default:
		p.Answered = f.At
		p.Picture = Root + "frame?" + url.Values{"service": {service}, "stream": {id}, "at": {strconv.FormatInt(f.At.UnixMilli(), 10)}}.Encode()
	}
}

// The side of a picture in pixels, at most, and how many are kept that were drawn.
const (
	pictureSide  = 960
	mostPictures = 8
)

// pictures are the latest ones that were drawn, by service and stream, so that one is drawn once
// for all viewers.
type pictures struct {
	mu sync.Mutex
	of map[string]drawnPicture
}

type drawnPicture struct {
	at   time.Time
	jpeg []byte
	err  error
}

// picture serves the last frame of a stream, with what was found on it.
func (c *Console) picture(w http.ResponseWriter, r *http.Request) {
	service, id := r.URL.Query().Get("service"), r.URL.Query().Get("stream")
	if !c.shows(service) {
		http.Error(w, "frames of this service are not shown", http.StatusForbidden)
		return
	}
	d := c.draw(service, id)
	switch {
	case d.at.IsZero():
		http.Error(w, "no frame has arrived since this page was opened", http.StatusNotFound)
	case d.err != nil:
		http.Error(w, "the frame cannot be drawn: "+d.err.Error(), http.StatusUnprocessableEntity)
	default:
		w.Header().Set("Content-Type", "image/jpeg")
		_, _ = w.Write(d.jpeg)
	}
}

// draw draws the last frame, once.
func (c *Console) draw(service, id string) drawnPicture {
	c.drawn.mu.Lock()
	defer c.drawn.mu.Unlock()
	f, ok := c.options.Source.Frame(service, id)
	declared, known := c.options.Source.Pipeline(service)
	if !ok || !known || f.At.IsZero() {
		return drawnPicture{}
	}
	key := service + "\x00" + id
	d := c.drawn.of[key]
	if d.at.Equal(f.At) {
		return d
	}
	d.at = f.At
	d.jpeg, d.err = f.JPEG(declared.Overlay, pictureSide)
	if c.drawn.of == nil || len(c.drawn.of) >= mostPictures {
		c.drawn.of = map[string]drawnPicture{}
	}
	c.drawn.of[key] = d
	return d
}
