package roles

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/wire/listen"
)

// StoreOptions describes a store of what modules need; see package content.
type StoreOptions struct {
	Addr  string // HOST:PORT; port 0 takes any that is free
	Dir   string // folder that holds it
	Token string // asked of workers and of whoever applies; empty asks for none
}

// Store is a folder of models that is served to hosts that do not see it.
type Store struct {
	Addr string // HOST:PORT

	quit    context.CancelFunc
	servers sync.WaitGroup
}

// slowHeaders is how long a caller of a store may take to say what it wants.
const slowHeaders = 5 * time.Second

// StartStore starts to serve.
func StartStore(o StoreOptions) (*Store, error) {
	l, err := listen.TCP(o.Addr, o.Token)
	if err != nil {
		return nil, err
	}
	life, quit := context.WithCancel(context.Background())
	s := &Store{Addr: l.Addr().String(), quit: quit}
	server := &http.Server{Handler: content.Handler(content.Folder(o.Dir), o.Token), ReadHeaderTimeout: slowHeaders}
	context.AfterFunc(life, func() { _ = server.Close() })
	s.servers.Go(func() { _ = server.Serve(l) })
	return s, nil
}

// Stop ends the store; transfers under way break off.
func (s *Store) Stop() {
	s.quit()
	s.servers.Wait()
}
