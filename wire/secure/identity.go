package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Files are the paths of an identity, all PEM. Cert and Key belong together; a
// client may have neither, a server may not. Without CA, clients trust the system's
// certificates, and servers require none.
type Files struct {
	Cert string // certificate, with those that lead to its CA
	Key  string // of the certificate
	CA   string // certificates of the CAs to trust
}

// None reports that there are no files.
func (f Files) None() bool { return f == Files{} }

// lookEvery is how often files are looked at for changes, at most.
const lookEvery = time.Second

// Identity is what Files hold now. It is safe for concurrent use.
type Identity struct {
	files Files

	mu     sync.Mutex
	looked time.Time
	stamp  string // of the files that were read
	cert   *tls.Certificate
	pool   *x509.CertPool
	failed error // of the last change of the files; what was read before holds
}

// Load reads an identity; nil where there are no files. The error names the flag of
// the file that is wrong.
func Load(f Files) (*Identity, error) {
	if f.None() {
		return nil, nil
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("secure: a certificate and its key belong together; give --tls-cert and --tls-key")
	}
	i := &Identity{files: f}
	i.read(time.Now())
	return i, i.failed
}

// read looks at the files and takes what has changed.
func (i *Identity) read(now time.Time) {
	i.looked = now
	stamp := ""
	for _, path := range []string{i.files.Cert, i.files.Key, i.files.CA} {
		if info, err := os.Stat(path); path != "" && err == nil {
			stamp += fmt.Sprintf("%d %d ", info.ModTime().UnixNano(), info.Size())
		}
	}
	if stamp == i.stamp && stamp != "" {
		i.failed = nil
		return
	}
	cert, err := i.certificate(now)
	if err == nil {
		var pool *x509.CertPool
		if pool, err = i.believed(); err == nil {
			i.cert, i.pool, i.stamp = cert, pool, stamp
		}
	}
	i.failed = err
}

func (i *Identity) certificate(now time.Time) (*tls.Certificate, error) {
	if i.files.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(i.files.Cert, i.files.Key)
	if err != nil {
		return nil, fmt.Errorf("secure: --tls-cert %s with --tls-key %s: %w", i.files.Cert, i.files.Key, err)
	}
	if from := cert.Leaf.NotBefore; now.Before(from) {
		return nil, fmt.Errorf("secure: --tls-cert %s is valid from %s on; see whether the clock of this host is right", i.files.Cert, from.UTC().Format(time.DateTime))
	}
	return &cert, i.expired(&cert, now)
}

func (i *Identity) believed() (*x509.CertPool, error) {
	if i.files.CA == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(i.files.CA)
	if err != nil {
		return nil, fmt.Errorf("secure: --tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("secure: --tls-ca %s holds no certificate; it is a PEM file", i.files.CA)
	}
	return pool, nil
}

// now is what the files hold, as of a moment ago.
func (i *Identity) now() (*tls.Certificate, *x509.CertPool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := time.Now(); at.Sub(i.looked) >= lookEvery {
		i.read(at)
	}
	return i.cert, i.pool
}

// Failed is why the files as they are now could not be taken, so that those before
// still hold, or that the certificate has expired since; nil where neither is the case.
func (i *Identity) Failed() error {
	if i == nil {
		return nil
	}
	i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed != nil {
		return i.failed
	}
	return i.expired(i.cert, time.Now())
}

// expired reports that the time of a certificate is over; nil for none.
func (i *Identity) expired(cert *tls.Certificate, now time.Time) error {
	if cert == nil || !now.After(cert.Leaf.NotAfter) {
		return nil
	}
	return fmt.Errorf("secure: --tls-cert %s has expired on %s; replace it with a new one", i.files.Cert, cert.Leaf.NotAfter.UTC().Format(time.DateTime))
}

// AsksCallers reports that callers can prove themselves with certificates of the CA.
func (i *Identity) AsksCallers() bool { return i != nil && i.files.CA != "" }

// protocols are those of HTTP and gRPC.
var protocols = []string{"h2", "http/1.1"}

// Server is the configuration of a port: callers may show a certificate of the CA,
// and Guard reports whether they must. It is nil without an identity.
func (i *Identity) Server() (*tls.Config, error) {
	if i == nil {
		return nil, nil
	}
	if i.files.Cert == "" {
		return nil, errors.New("secure: a port with TLS needs a certificate; give --tls-cert and --tls-key")
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cert, pool := i.now()
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{*cert}}
		if pool != nil {
			c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven
		}
		return c, nil
	}
	base.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, _ := i.now()
		return cert, nil
	}
	return base, nil
}

// Client is the configuration of one connection to a host.
func (i *Identity) Client(host string) *tls.Config {
	cert, pool := i.now()
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: pool}
	if cert != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, _ := i.now() // a configuration may outlive a certificate
			return cert, nil
		}
	}
	return c
}

// Transport makes a transport dial with the identity, as its files are then. A nil
// identity changes nothing.
func (i *Identity) Transport(t *http.Transport) *http.Transport {
	if i == nil {
		return t
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conn := tls.Client(raw, i.Client(host))
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, Explain(err, address)
		}
		return conn, nil
	}
	return t
}

// HTTP is a client over TLS with the identity; http.DefaultClient without one.
func (i *Identity) HTTP() *http.Client {
	if i == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: i.Transport(http.DefaultTransport.(*http.Transport).Clone())}
}
