package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	"github.com/harpagon/harpagon/wire/secure"
)

// Server is a client of one model server. Those of package wire/oip are.
type Server interface {
	Live(ctx context.Context) error
	Ready(ctx context.Context, model, version string) (bool, error)
	Metadata(ctx context.Context, model, version string) (*wire.Metadata, error)
	Infer(ctx context.Context, q *wire.InferRequest, version string) (*wire.InferResponse, error)
	Close() error
}

// Target is a model on a server.
type Target struct {
	Server  Server
	Where   string // of the server, for errors
	Model   string
	Version string // empty leaves it to the server
	Batch   string // pipelines.BatchStack, pipelines.BatchSingle, or empty: as the shapes say
	Timeout time.Duration
}

// dial makes a client for the address. Nothing is sent yet.
func dial(r pipelines.Remote, o *Options) (Target, error) {
	t := Target{Where: r.Scheme + "://" + r.Host, Model: r.Model, Version: r.Version, Batch: r.Batch, Timeout: r.Timeout}
	token := ""
	if r.TokenVariable != "" {
		if token = os.Getenv(r.TokenVariable); token == "" {
			return t, fmt.Errorf("the environment variable %s, which is to hold the token of %s, is empty", r.TokenVariable, t.Where)
		}
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if token != "" && !strings.HasSuffix(r.Scheme, "s") && !secure.Loopback(host) {
		return t, fmt.Errorf("the token of %s would travel without TLS, for everybody on the way to read; name the server as %ss://", t.Where, r.Scheme)
	}
	if !strings.HasPrefix(r.Scheme, "grpc") {
		t.Server = oip.NewClient(oip.ClientOptions{URL: t.Where, Token: token, MaxAnswer: int64(o.MaxAnswer)})
		return t, nil
	}
	options := oipgrpc.ClientOptions{Address: r.Host, Token: token, MaxAnswer: o.MaxAnswer}
	if r.Scheme == "grpcs" {
		options.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	client, err := oipgrpc.NewClient(options)
	t.Server = client
	return t, err
}
