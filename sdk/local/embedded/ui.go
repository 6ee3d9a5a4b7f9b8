//go:build !noserver

package embedded

import (
	uiserver "github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"

	"github.com/harpagon/harpagon/wire/secure"
)

// ui is Temporal's UI.
type ui struct {
	server *uiserver.Server
	url    string
	done   chan struct{}
}

func startUI(at address, frontend string, f secure.Files) *ui {
	u := &ui{
		url:  "http://" + at.String(),
		done: make(chan struct{}),
		server: uiserver.NewServer(server_options.WithConfigProvider(&config.Config{
			TemporalGRPCAddress: frontend,
			Host:                at.host,
			Port:                at.port,
			EnableUI:            true,
			HideLogs:            true,
			DefaultNamespace:    Namespace,
			CORS:                config.CORS{CookieInsecure: true},
			TLS:                 config.TLS{CaFile: f.CA, CertFile: f.Cert, KeyFile: f.Key, EnableHostVerification: true},
		})),
	}
	go func() {
		defer close(u.done)
		_ = u.server.Start()
	}()
	return u
}

func (u *ui) stop() {
	u.server.Stop()
	<-u.done
}
