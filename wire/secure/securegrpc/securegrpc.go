// Package securegrpc gives gRPC the identities and guards of package secure. It
// stands apart so that clients without gRPC do not compile it.
package securegrpc

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
)

// tokenKey is the metadata key of the token.
const tokenKey = "authorization"

// Dial are the credentials of connections: TLS with the identity, as its files are
// when each begins; none without an identity.
func Dial(i *secure.Identity) credentials.TransportCredentials {
	if i == nil {
		return insecure.NewCredentials()
	}
	return &dialing{TransportCredentials: credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), identity: i}
}

// dialing makes a configuration for every connection.
type dialing struct {
	credentials.TransportCredentials
	identity *secure.Identity
}

// ClientHandshake implements credentials.TransportCredentials.
func (d *dialing) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	conn, info, err := credentials.NewTLS(d.identity.Client(host)).ClientHandshake(ctx, authority, raw)
	return conn, info, secure.Explain(err, authority)
}

// Clone implements credentials.TransportCredentials.
func (d *dialing) Clone() credentials.TransportCredentials {
	return &dialing{TransportCredentials: d.TransportCredentials.Clone(), identity: d.identity}
}

// Admits reports whether a guard admits the caller of a call.
func Admits(ctx context.Context, g secure.Guard) bool {
	var state *tls.ConnectionState
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			state = &info.State
		}
	}
	return g.Admits(tokens(ctx), state)
}

// Tenant is whose token the caller has shown; nil for the one that all share, or none.
func Tenant(ctx context.Context, g secure.Guard) *wire.Tenant {
	return g.Tenant(tokens(ctx))
}

// tokens are those that came with a call; the rest of what came with it is not copied.
func tokens(ctx context.Context) []string { return metadata.ValueFromIncomingContext(ctx, tokenKey) }
