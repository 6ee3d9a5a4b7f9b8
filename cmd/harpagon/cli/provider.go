package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

type providerFlags struct {
	listen  string
	name    string
	pace    string
	options serverless.Options
}

// newProviderCommand makes harpagon provider.
func newProviderCommand(d *Deps) *cobra.Command {
	var f providerFlags
	c := &cobra.Command{
		Use:   "provider PATH...",
		Short: "Stand in for a provider of functions on this machine, and bill",
		Long: `Runs the functions of a declaration as their provider would, at the address that
the provider's url names, which must be on this machine: an instance runs one
batch at a time, a call that finds none idle starts one more, and idle instances
go after a while. The bill is at /billing, and printed in the end.

A batch takes the time that the function's profile says. Where the function has a
model, an engine computes the answer; --pace share takes the time that this takes
on the share of a core that the function has, instead of the profile's.`,
		Example: `  harpagon provider examples/functions
  harpagon provider examples/functions --cold-start 3s --keep 1m`,
		Args: somePaths,
	}
	x := newDeclaration(d, c)
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "", "`address`, instead of the one in the provider's url")
	flags.StringVar(&f.name, "provider", "", "`name` of the provider, where the files declare several")
	flags.StringVar(&f.pace, "pace", string(serverless.PaceProfile), "how long a batch takes: profile or share")
	flags.BoolVar(&f.options.Steady, "steady", false, "let every batch take its average time, without chance")
	flags.DurationVar(&f.options.ColdStart, "cold-start", serverless.DefaultColdStart, "how long an instance takes to start, before its model is loaded")
	flags.DurationVar(&f.options.Keep, "keep", serverless.DefaultKeep, "how long an idle instance is kept")
	flags.IntVar(&f.options.Limit, "limit", 0, "most instances of one size; 0 takes the provider's concurrency")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of the times that batches take")
	c.RunE = func(c *cobra.Command, paths []string) error {
		doc, err := x.Document(paths)
		if err != nil {
			return err
		}
		return f.run(c.Context(), d, doc)
	}
	return c
}

func (f *providerFlags) run(ctx context.Context, d *Deps, doc *pipelines.Document) error {
	cloud, err := f.choose(doc)
	if err != nil {
		return err
	}
	o := f.options
	if o.ColdStart == 0 {
		o.ColdStart = -1 // none, where zero means the default
	}
	switch o.Pace = serverless.Pace(f.pace); o.Pace {
	case serverless.PaceProfile, serverless.PaceShare:
	default:
		return fmt.Errorf("--pace %s: write profile or share", f.pace)
	}
	for _, fn := range doc.Functions {
		if fn.Provider == cloud.Name {
			o.Problems = append(o.Problems, functions.Problem{Function: fn, Provider: *cloud})
		}
	}
	if v := cloud.TokenVariable; v != "" {
		if o.Token = os.Getenv(v); o.Token == "" {
			return fmt.Errorf("provider %q asks for a token: set the environment variable %s, to the same here and where the gateway runs", cloud.Name, v)
		}
	}
	address, err := f.address(cloud)
	if err != nil {
		return err
	}
	o.Engines = system.Engines(nil, nil, nil)
	host, err := serverless.New(o)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "provider: "))
	}
	defer host.Close()
	l, err := listen.HTTP(address, secure.Credentials{}, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Stdout, "provider %s runs %s\n", cloud.Name, quantity.Count(len(o.Problems), "function"))
	fmt.Fprintf(d.Stdout, "address  %s\nbill     http://%s%s\n", cloud.URL, l.Addr(), serverless.BillPath)
	begin := time.Now()
	err = httpapi.Serve(ctx, l, host)
	fmt.Fprint(d.Stdout, describeBill(host.Bill(), time.Since(begin)))
	return err
}

// choose finds the provider to stand in for.
func (f *providerFlags) choose(doc *pipelines.Document) (*pipelines.Provider, error) {
	if f.name != "" {
		if p := doc.Provider(f.name); p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("--provider %s: the files declare no provider of that name", f.name)
	}
	switch len(doc.Providers) {
	case 0:
		return nil, errors.New("the files declare no provider")
	case 1:
		return &doc.Providers[0], nil
	}
	return nil, errors.New("the files declare several providers; name one with --provider")
}

// address is where to listen: on this machine only.
func (f *providerFlags) address(p *pipelines.Provider) (string, error) {
	at := f.listen
	if at == "" {
		text, err := p.CallURL(pipelines.FunctionSize{})
		if err != nil {
			return "", err
		}
		u, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		if at = u.Host; u.Port() == "" {
			at = net.JoinHostPort(u.Hostname(), "80")
		}
	}
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return "", fmt.Errorf("%q is no address to listen on: write HOST:PORT", at)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("the url of provider %q is on %s; this stands in for a provider on this machine only, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\"", p.Name, host)
	}
	return at, nil
}

// describeBill is the bill for people.
func describeBill(b serverless.Bill, ran time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nbill after %s\n", ran.Round(time.Second))
	for _, i := range b.Items {
		fmt.Fprintf(&out, "%s: %d calls with %d requests, %d cold starts, %d refused, %.1f s billed, %.3g\n",
			i.Name, i.Invocations, i.Requests, i.ColdStarts, i.Throttled, i.Billed/1000, i.Cost)
	}
	fmt.Fprintf(&out, "total %.3g, %.3g per million requests\n", b.Cost, 1e6*b.CostPerRequest)
	return out.String()
}
