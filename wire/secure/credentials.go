// Package secure has the credentials by which the processes of a system authenticate to each
// other, and is the one place that makes TLS configurations.
//
// An Identity is a certificate with its key and the trusted CA certificates, from files that
// are read again when they change: connections that are open stay, new ones use what the files
// hold then. Credentials are an Identity, a token, or both. Two rules hold everywhere:
//
//   - nothing listens where other hosts reach it unless its callers must show a
//     certificate of its CA, or a token;
//   - no token travels without TLS between hosts, unless Plain states that the
//     network itself is trusted.
//
// A port with both takes either. Package securegrpc has the same for gRPC.
package secure

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Credentials are what a process authenticates with, and what it requires of its callers. The
// zero value is good on the loopback interface.
type Credentials struct {
	Token    string    // shared secret; empty has none and requires none
	Tokens   *Tokens   // of callers, by name; nil has none
	Identity *Identity // for TLS; nil has none
	Plain    bool      // the network is trusted: tokens may travel without TLS
}

// MayListen reports why a port that other hosts can reach must not be opened; the
// address is HOST:PORT.
func (c Credentials) MayListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("harpagon: address %q is not HOST:PORT, for example 127.0.0.1:8000: %w", address, err)
	}
	switch {
	case Loopback(host):
		return nil
	case c.Token == "" && c.Tokens == nil && !c.Identity.AsksCallers():
		return fmt.Errorf("harpagon: %q can be reached from other hosts; set a token in HARPAGON_TOKEN, or give --tokens or --tls-ca (with --tls-cert and --tls-key), so that callers must prove themselves, or listen on 127.0.0.1:%s", address, port)
	case c.Identity == nil && !c.Plain:
		return fmt.Errorf("harpagon: %q can be reached from other hosts, and without TLS everybody on the way reads the token; give --tls-cert and --tls-key, or --plaintext where the network is trusted, or listen on 127.0.0.1:%s", address, port)
	}
	return nil
}

// Shared is a secret of the processes of a fleet: of the token that all share, and of those that are good for being a
// role. It is nil where no credentials are required, and random where there are no such tokens.
func (c Credentials) Shared() []byte {
	key := slices.Concat([]byte(c.Token), c.Tokens.ofRoles())
	switch {
	case len(key) > 0:
		return key
	case c.Guard().Open():
		return nil
	}
	return []byte(rand.Text())
}

// MaySend reports why the token must not be sent to a host.
func (c Credentials) MaySend(host string, overTLS bool) error {
	if c.Token == "" || overTLS || c.Plain || Loopback(host) {
		return nil
	}
	return fmt.Errorf("harpagon: the token would travel to %s without TLS, for everybody on the way to read; give --tls-ca (and https:// where there is a URL), or --plaintext where the network is trusted", host)
}

// watchEvery is how often Watch looks at the files.
const watchEvery = 5 * time.Second

// Watch reports, until the context ends, errors of files that are read again when they change:
// once when one begins, and once when it is over. What the files held before is in force
// meanwhile.
func (c Credentials) Watch(ctx context.Context, tell func(line string)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var told [2]string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for k, failed := range []error{c.Identity.Failed(), c.Tokens.Failed()} {
			text := ""
			if failed != nil {
				text = failed.Error() + "; what was read last stays in force"
			}
			switch {
			case text == told[k]:
				continue
			case text == "":
				tell("secure: " + [2]string{"the certificates", "the tokens"}[k] + " are read again")
			default:
				tell(text)
			}
			told[k] = text
		}
	}
}

// Loopback reports that only this machine reaches the host. An empty host means
// all interfaces.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// Guard decides which callers are admitted.
func (c Credentials) Guard() Guard {
	return Guard{token: digest("Bearer " + c.Token), asksToken: c.Token != "", tokens: c.Tokens, asksCertificate: c.Identity.AsksCallers()}
}

// Guard admits callers that show the token, a named token, or a certificate of the CA;
// everybody where none is required. The zero value lets everybody in.
type Guard struct {
	token                      [sha256.Size]byte
	tokens                     *Tokens
	asksToken, asksCertificate bool
	scope                      Scope // that a named token must have; empty for any
}

// For is the guard of what named tokens need a scope for. The token that all share, and
// certificates, are good for everything.
func (g Guard) For(s Scope) Guard {
	g.scope = s
	return g
}

func digest(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// Open reports that everybody may come in.
func (g Guard) Open() bool { return !g.asksToken && g.tokens == nil && !g.asksCertificate }

// Admits reports whether the caller may come in, from the headers "authorization" that
// it sent and the connection; nil where that is without TLS.
func (g Guard) Admits(authorization []string, conn *tls.ConnectionState) bool {
	if g.Open() || g.asksCertificate && conn != nil && len(conn.VerifiedChains) > 0 {
		return true
	}
	for _, given := range authorization {
		sum := digest(given)
		if g.asksToken && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
			return true
		}
	}
	named := g.tokens.find(authorization)
	return named != nil && (g.scope == "" || named.may(g.scope))
}

// AdmitsPeer is Admits of a connection whose other side has shown a token, empty for none,
// when the handshake of TLS is done where there is one.
func (g Guard) AdmitsPeer(token string, c net.Conn) bool {
	var state *tls.ConnectionState
	if over, ok := c.(interface{ ConnectionState() tls.ConnectionState }); ok {
		of := over.ConnectionState()
		state = &of
	}
	return g.Admits([]string{"Bearer " + token}, state)
}

// Tenant is whose token the caller has shown; nil for the one that all share, or none.
func (g Guard) Tenant(authorization []string) *wire.Tenant {
	if named := g.tokens.find(authorization); named != nil {
		return &named.Tenant
	}
	return nil
}

// Refusal is the error for a caller that is not admitted; owner names the server.
func (g Guard) Refusal(owner string) string {
	asksToken := g.asksToken || g.tokens != nil
	if g.tokens != nil && g.scope != "" {
		owner += " (for scope " + string(g.scope) + ")"
	}
	switch {
	case asksToken && g.asksCertificate:
		return owner + ` requires a certificate of its CA, or a token; connect with --tls-cert and --tls-key, or send "authorization: Bearer TOKEN"`
	case g.asksCertificate:
		return owner + " requires a certificate of its CA; connect with --tls-cert and --tls-key"
	}
	return owner + ` requires a token; send it as "authorization: Bearer TOKEN" (HARPAGON_TOKEN)`
}

// Explain adds to an error of TLS what to do; other errors stay as they are. peer is the
// address that was dialled.
func Explain(err error, peer string) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	text := "" // gRPC keeps no more of an error
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown), strings.Contains(text, "x509: certificate signed by unknown authority"):
		return fmt.Errorf("the certificate of %s is not from a CA that this side trusts; give that CA with --tls-ca: %w", peer, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is not valid now (%s to %s); renew it there, and see whether the clocks are right: %w",
			peer, invalid.Cert.NotBefore.UTC().Format(time.DateTime), invalid.Cert.NotAfter.UTC().Format(time.DateTime), err)
	case strings.Contains(text, "x509: certificate has expired or is not yet valid"):
		return fmt.Errorf("the certificate of %s is not valid now; renew it there, and see whether the clocks are right: %w", peer, err)
	case errors.As(err, &name), strings.Contains(text, "x509: certificate is valid for"), strings.Contains(text, "because it doesn't contain any IP SANs"):
		return fmt.Errorf("the certificate of %s is for another name; dial the name that it is for, or renew it with this one: %w", peer, err)
	case errors.As(err, &record), strings.Contains(text, "first record does not look like a TLS handshake"):
		return fmt.Errorf("%s does not speak TLS; start it with --tls-cert and --tls-key, or leave --tls-ca and https:// out here: %w", peer, err)
	case errors.As(err, &alert), strings.Contains(text, "remote error: tls:"):
		return fmt.Errorf("%s does not take this side's certificate; see that --tls-cert is from its CA and has not expired: %w", peer, err)
	}
	return err
}

// AllowedAddress is the HOST or HOST:PORT that an address leads to, and whether that is among what
// an operator allows, of either form each. A list without entries allows all.
func AllowedAddress(address string, allowed []string) (to string, ok bool) {
	at, err := url.Parse(address)
	if err != nil {
		return address, len(allowed) == 0
	}
	return at.Host, len(allowed) == 0 || at.Host != "" && (slices.Contains(allowed, at.Host) || slices.Contains(allowed, at.Hostname()))
}
