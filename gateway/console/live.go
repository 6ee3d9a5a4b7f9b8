package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// updateEvery is how often a page that is looked at is rendered, and maxViewers how
// many streams a console serves.
const (
	updateEvery = 2 * time.Second
	maxViewers  = 100
)

// live sends pages to their viewers. A page is rendered once for all its viewers, and sent
// where it has changed.
type live struct {
	ctx    context.Context
	render func(ctx context.Context, path string) ([]byte, error)

	mu      sync.Mutex
	viewers int
	feeds   map[string]*feed // by path
}

// feed is a page with viewers.
type feed struct {
	viewers map[chan []byte]bool
	quit    context.CancelFunc
}

// join adds a viewer of a page; leave must be called in the end. What a viewer has
// not taken yet is replaced by what is newer.
func (l *live) join(path string) (updates <-chan []byte, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.viewers >= maxViewers {
		return nil, nil, fmt.Errorf("%d people look at this console already; the page still works by reloading", l.viewers)
	}
	l.viewers++
	f := l.feeds[path]
	if f == nil {
		ctx, quit := context.WithCancel(l.ctx)
		f = &feed{viewers: map[chan []byte]bool{}, quit: quit}
		l.feeds[path] = f
		go l.follow(ctx, path, f)
	}
	c := make(chan []byte, 1)
	f.viewers[c] = true
	return c, func() { l.leave(path, f, c) }, nil
}

func (l *live) leave(path string, f *feed, c chan []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewers--
	delete(f.viewers, c)
	if len(f.viewers) == 0 {
		f.quit()
		delete(l.feeds, path)
	}
}

// follow renders a page until it has no viewer.
func (l *live) follow(ctx context.Context, path string, f *feed) {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	var last []byte
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		main, err := l.render(ctx, path)
		if err != nil || main == nil || bytes.Equal(main, last) {
			continue
		}
		last = main
		body, err := json.Marshal(string(main))
		if err != nil {
			continue // a string always can be
		}
		l.send(f, body)
	}
}

func (l *live) send(f *feed, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range f.viewers {
		select {
		case <-c:
		default:
		}
		c <- body // there is room: this is the only sender
	}
}
