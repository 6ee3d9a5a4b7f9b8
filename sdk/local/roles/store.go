package roles

import (
	"context"
	"sync"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// StoreOptions describes a store of what modules need; see package content.
type StoreOptions struct {
	Addr        string             // HOST:PORT; port 0 takes any that is free
	Dir         string             // folder that holds it
	Limit       int64              // bytes that it takes; 0 for content.DefaultStoreLimit
	Credentials secure.Credentials // asked of workers and of whoever applies
}

// Store is a folder of models that is served to hosts that do not see it.
type Store struct {
	Addr string // HOST:PORT

	secured bool
	quit    context.CancelFunc
	servers sync.WaitGroup
}

// StartStore starts to serve.
func StartStore(o StoreOptions) (*Store, error) {
	l, err := listen.HTTP(o.Addr, o.Credentials, 0)
	if err != nil {
		return nil, err
	}
	life, quit := context.WithCancel(context.Background())
	s := &Store{Addr: l.Addr().String(), quit: quit, secured: o.Credentials.Identity != nil}
	server := listen.Server(listen.Transfers(content.Handler(content.Folder(o.Dir), o.Limit, o.Credentials.Guard())))
	context.AfterFunc(life, func() { _ = server.Close() })
	s.servers.Go(func() { _ = server.Serve(l) })
	return s, nil
}

// URL is where the store is.
func (s *Store) URL() string {
	if s.secured {
		return "https://" + s.Addr
	}
	return "http://" + s.Addr
}

// Stop ends the store; transfers under way break off.
func (s *Store) Stop() {
	s.quit()
	s.servers.Wait()
}
