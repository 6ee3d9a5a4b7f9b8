//go:build !noserver

package embedded

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// webUI is Temporal's UI.
type webUI struct {
	server *http.Server
	url    string
	done   chan struct{}
}

// startUI serves the UI on a listener.
func startUI(l net.Listener, frontend string, f secure.Files) (*webUI, error) {
	h, err := handler(&config.Config{
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    Namespace,
		CORS:                config.CORS{CookieInsecure: true},
		TLS:                 config.TLS{CaFile: f.CA, CertFile: f.Cert, KeyFile: f.Key, EnableHostVerification: true},
	})
	if err != nil {
		return nil, err
	}
	u := &webUI{url: "http://" + l.Addr().String(), done: make(chan struct{}), server: listen.Server(local(h))}
	go func() {
		defer close(u.done)
		_ = u.server.Serve(l)
	}()
	return u, nil
}

// local refuses requests that name another host than this machine: a page of a stranger
// can have its own name lead here ("DNS rebinding"), and would be let in as if it were of
// this site, to read and to change whatever people can.
func local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !secure.Loopback(host) {
			http.Error(w, "Temporal's UI is for this machine only: ask for it as localhost, or as 127.0.0.1, whichever way you come", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// handler is made as the UI's own program makes it, which listens by itself and lets
// every request in.
func handler(c *config.Config) (http.Handler, error) {
	provider, err := config.NewConfigProviderWithRefresh(c)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure())
	e.Use(csrf.EnsureTokenCookie(!c.CORS.CookieInsecure), middleware.CSRFWithConfig(csrf.MiddlewareConfig(provider, !c.CORS.CookieInsecure)))
	e.Pre(route.PublicPath(c.PublicPath))
	route.SetHealthRoute(e)
	if err := route.SetAPIRoutes(e, provider, []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}); err != nil {
		return nil, fmt.Errorf("embedded: Temporal UI: %w", err)
	}
	assets, err := ui.Assets()
	if err == nil {
		assets, err = fs.Sub(assets, "local")
	}
	if err == nil {
		err = route.SetUIRoutes(e, c.PublicPath, assets, provider)
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: Temporal UI: %w", err)
	}
	route.SetRenderRoute(e, c.PublicPath)
	return e, nil
}

func (u *webUI) stop() {
	_ = u.server.Close()
	<-u.done
}
