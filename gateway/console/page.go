package console

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// Root is the path below which everything lies.
const Root = "/console/"

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"day":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
}).ParseFS(assets, "assets/*.html"))

// policy lets a page load nothing but what this console serves.
const policy = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Options of a console.
type Options struct {
	Source    Source
	Version   string // of the program
	UI        string // address of Temporal's UI; empty leaves links out
	Namespace string // of Temporal; empty means "default"

	// Callers are who may look. A token is accepted as a bearer token, or as the password of HTTP
	// basic authentication with any user name.
	Callers secure.Guard
}

// Console is the http.Handler of everything below Root.
type Console struct {
	options Options
	reader  reader
	history history
	drawn   pictures
	live    live
	mux     *http.ServeMux
}

// New makes a console. It keeps history, and its live streams last, until ctx ends.
func New(ctx context.Context, o Options) *Console {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	c := &Console{options: o, reader: reader{source: o.Source, now: time.Now}, mux: http.NewServeMux()}
	c.live = live{ctx: ctx, render: c.main, feeds: map[string]*feed{}}
	go c.history.watch(ctx, o.Source.Measures)
	c.mux.HandleFunc("GET "+Root+"{$}", c.page)
	c.mux.HandleFunc("GET "+Root+"services/{name...}", c.page)
	c.mux.HandleFunc("GET "+Root+"streams/{name...}", c.page)
	c.mux.HandleFunc("GET "+Root+"frame", c.picture)
	c.mux.HandleFunc("GET "+Root+"live", c.stream)
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		c.mux.HandleFunc("GET "+Root+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(body)
		})
	}
	return c
}

// ServeHTTP serves one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if !c.allowed(r) {
		h.Set("WWW-Authenticate", `Basic realm="harpagon: any name, and the token as password"`)
		http.Error(w, "the console requires the gateway's token: as the password, with any name, or as \"Authorization: Bearer TOKEN\"", http.StatusUnauthorized)
		return
	}
	c.mux.ServeHTTP(w, r)
}

func (c *Console) allowed(r *http.Request) bool {
	given := r.Header["Authorization"]
	if _, password, ok := r.BasicAuth(); ok {
		given = []string{"Bearer " + password}
	}
	if c.options.Callers.Open() {
		return true
	}
	admitted := c.options.Callers.Admits(given, r.TLS)
	if admitted {
		listen.CallerOf(r).Place.Prove()
	}
	return admitted
}

func (c *Console) page(w http.ResponseWriter, r *http.Request) {
	main, f, err := c.parts(r.Context(), r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	status := http.StatusOK
	if main == nil {
		status = http.StatusNotFound
		main = []byte("<p class=\"empty\">No service of that name runs.</p>")
	}
	var b bytes.Buffer
	err = pages.ExecuteTemplate(&b, "frame.html", struct {
		frame
		Main template.HTML
		Live string
	}{f, template.HTML(main), Root + "live?page=" + url.QueryEscape(r.URL.Path)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// main renders what changes of a page; nil where there is no such page.
func (c *Console) main(ctx context.Context, path string) ([]byte, error) {
	main, _, err := c.parts(ctx, path)
	return main, err
}

func (c *Console) parts(ctx context.Context, path string) (main []byte, f frame, err error) {
	s := c.reader.read(ctx)
	var b bytes.Buffer
	if path == Root {
		o := c.overview(s)
		err = pages.ExecuteTemplate(&b, "overview.html", o)
		return b.Bytes(), o.frame, err
	}
	if name, ok := strings.CutPrefix(path, Root+"streams/"); ok {
		page := c.streamPage(s, name)
		if page == nil {
			return nil, c.frame(s, "Not found", path), nil
		}
		err = pages.ExecuteTemplate(&b, "stream.html", page)
		return b.Bytes(), page.frame, err
	}
	name, ok := strings.CutPrefix(path, Root+"services/")
	if !ok {
		return nil, c.frame(s, "Not found", path), nil
	}
	for _, status := range s.services {
		if status.Name == name {
			page := c.service(s, status)
			err = pages.ExecuteTemplate(&b, "service.html", page)
			return b.Bytes(), page.frame, err
		}
	}
	return nil, c.frame(s, "Not found", path), nil
}

func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	to := http.NewResponseController(w)
	updates, leave, err := c.live.join(r.URL.Query().Get("page"))
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = to.SetReadDeadline(time.Time{}) // not every writer has deadlines
	for err := to.Flush(); err == nil; err = to.Flush() {
		_ = to.SetWriteDeadline(time.Time{})
		select {
		case body := <-updates:
			_ = to.SetWriteDeadline(time.Now().Add(listen.AnswerTime))
			_, _ = fmt.Fprintf(w, "data: %s\n\n", body)
		case <-r.Context().Done():
			return
		case <-c.live.ctx.Done():
			return
		}
	}
}
