// Command functions stands in for the provider of a declaration's functions, at the address that the
// provider's url names, which must be on this machine, and prints the bill in the end.
//
//	go run ./examples/functions examples/functions
//
// A batch takes its time from the function's profile. Where the function has a model, an
// engine computes the answer; -pace share takes the time that this takes on the share of a
// core that the function has, instead of the profile's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

type flags struct {
	listen  string
	name    string
	options provider.Options
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "functions:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var f flags
	vars := map[string]string{}
	set := flag.NewFlagSet("functions", flag.ContinueOnError)
	set.StringVar(&f.listen, "listen", "", "`address`, instead of the one in the provider's url")
	set.StringVar(&f.name, "provider", "", "`name` of the provider, where the files declare several")
	set.StringVar((*string)(&f.options.Pace), "pace", string(provider.PaceProfile), "how long a batch takes: profile or share")
	set.BoolVar(&f.options.Steady, "steady", false, "let every batch take its average time, without chance")
	set.DurationVar(&f.options.ColdStart, "cold-start", provider.DefaultColdStart, "how long an instance takes to start, before its model is loaded")
	set.DurationVar(&f.options.Keep, "keep", provider.DefaultKeep, "how long an idle instance is kept")
	set.IntVar(&f.options.Limit, "limit", 0, "most instances of one size; 0 takes the provider's concurrency")
	set.Uint64Var(&f.options.Seed, "seed", 1, "of the times that batches take")
	set.Func("var", "`name=value` of a variable; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("write name=value")
		}
		vars[name] = value
		return nil
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	c, diags := hcl.Load(hcl.LoadOptions{Env: os.Environ(), Vars: vars}, set.Args()...)
	if diags.HasErrors() {
		return diags
	}
	return f.serve(ctx, out, &c.Document)
}

func (f *flags) serve(ctx context.Context, out io.Writer, doc *pipelines.Document) error {
	cloud, err := f.choose(doc)
	if err != nil {
		return err
	}
	o := f.options
	if o.ColdStart == 0 {
		o.ColdStart = -1 // none, where zero means the default
	}
	switch o.Pace {
	case provider.PaceProfile, provider.PaceShare:
	default:
		return fmt.Errorf("-pace %s: write profile or share", o.Pace)
	}
	for _, fn := range doc.Functions {
		if fn.Provider == cloud.Name {
			o.Problems = append(o.Problems, functions.Problem{Function: fn, Provider: *cloud})
		}
	}
	if v := cloud.TokenVariable; v != "" {
		if o.Token = os.Getenv(v); o.Token == "" {
			return fmt.Errorf("provider %q requires a token: set the environment variable %s, to the same here and where the gateway runs", cloud.Name, v)
		}
	}
	address, err := f.address(cloud)
	if err != nil {
		return err
	}
	o.Engines = []executors.Engine{gorgonia.New(), onnxruntime.New(onnxruntime.Options{})}
	host, err := provider.New(o)
	if err != nil {
		return err
	}
	defer host.Close()
	l, err := listen.HTTP(address, secure.Credentials{}, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "provider %s runs %s\n", cloud.Name, quantity.Count(len(o.Problems), "function"))
	fmt.Fprintf(out, "address  %s\nbill     http://%s%s\n", cloud.URL, l.Addr(), provider.BillPath)
	begin := time.Now()
	err = httpapi.Serve(ctx, l, host)
	fmt.Fprint(out, describeBill(host.Bill(), time.Since(begin)))
	return err
}

// choose finds the provider to stand in for.
func (f *flags) choose(doc *pipelines.Document) (*pipelines.Provider, error) {
	if f.name != "" {
		if p := doc.Provider(f.name); p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("-provider %s: the files declare no provider of that name", f.name)
	}
	switch len(doc.Providers) {
	case 0:
		return nil, errors.New("the files declare no provider")
	case 1:
		return &doc.Providers[0], nil
	}
	return nil, errors.New("the files declare several providers; name one with -provider")
}

// address is where to listen: on this machine only.
func (f *flags) address(p *pipelines.Provider) (string, error) {
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
func describeBill(b provider.Bill, ran time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nbill after %s\n", ran.Round(time.Second))
	for _, i := range b.Items {
		fmt.Fprintf(&out, "%s: %d calls with %d requests, %d cold starts, %d refused, %.1f s billed, %.3g\n",
			i.Name, i.Invocations, i.Requests, i.ColdStarts, i.Throttled, i.Billed/1000, i.Cost)
	}
	fmt.Fprintf(&out, "total %.3g, %.3g per million requests\n", b.Cost, 1e6*b.CostPerRequest)
	return out.String()
}
