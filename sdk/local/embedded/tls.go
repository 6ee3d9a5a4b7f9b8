//go:build !noserver

package embedded

import (
	"crypto/tls"

	"go.temporal.io/server/common/rpc/encryption"

	"github.com/harpagon/harpagon/wire/secure"
)

// over is the TLS configuration of every port of the server, read again when the files
// change; nil without an identity. Unlike a gateway it has no tokens: where there is a CA,
// callers must have a certificate of it.
func over(i *secure.Identity) (encryption.TLSConfigProvider, error) {
	if i == nil {
		return nil, nil
	}
	serve, err := i.Server()
	if err != nil {
		return nil, err
	}
	now := serve.GetConfigForClient
	serve.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := now(hello)
		if err == nil && c.ClientCAs != nil {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return c, err
	}
	dial := i.Client("") // the name is the one that is dialled
	return &encryption.FixedTLSConfigProvider{
		InternodeServerConfig: serve, InternodeClientConfig: dial, FrontendServerConfig: serve, FrontendClientConfig: dial,
	}, nil
}
