package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// Settle prepares the process for serving. It may start the program again in its place, so
// nothing may have been begun before.
//
// Garbage is collected when the heap has grown to four times what lives, instead of to
// twice: with an embedded Temporal tens of megabytes live, and to look through them for
// every few thousand requests takes a sixth of what small ones cost. Where memory gets
// short, at half of the machine's, it is collected as often as it must be. GOGC and
// GOMEMLIMIT override that.
//
// Until ctx ends it runs on as few processors as it needs, where Deps.TuneProcessors is
// set.
func (d *Deps) Settle(ctx context.Context) {
	if d.RelaxTimerSlack != nil {
		d.RelaxTimerSlack()
	}
	percent, most := garbage(os.Getenv, physical())
	if percent != 0 {
		debug.SetGCPercent(percent)
	}
	if most != 0 {
		debug.SetMemoryLimit(most)
	}
	if d.TuneProcessors != nil {
		d.TuneProcessors(ctx)
	}
}

// Bound has garbage collected as often as it takes, where requests may hold so many bytes,
// for the process to hold no more than these and what it lives on besides.
func (d *Deps) Bound(requests int64) {
	const besides = 128 << 20
	if most := requests + besides; requests > 0 && os.Getenv("GOMEMLIMIT") == "" && most < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(most)
	}
}

// garbage is by how many percent of what lives the heap may grow before garbage is
// collected, and how many bytes it may hold in all; 0 leaves either as it is. total is
// the machine's memory, 0 where unknown: then nothing would bound the heap.
func garbage(getenv func(string) string, total int64) (percent int, most int64) {
	const growth, share = 300, 2
	if total == 0 {
		return 0, 0
	}
	if getenv("GOGC") == "" {
		percent = growth
	}
	if getenv("GOMEMLIMIT") == "" {
		most = total / share
	}
	return percent, most
}

// memoryShare is the part of a machine's memory that requests under way may hold by
// default, as its divisor.
const memoryShare = 4

// limitFlags bound what callers can make a gateway hold.
type limitFlags struct {
	bytes, pipeline, shared string
	connections             int
}

// Register adds the flags to a command.
func (f *limitFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.bytes, "max-bytes", "", "how much memory the requests under way may take, with what is made of them, such as 2GiB; a quarter of the machine's when left out")
	c.Flags().StringVar(&f.pipeline, "max-bytes-per-pipeline", "", "how much of it the requests to one pipeline may take; all when left out")
	c.Flags().StringVar(&f.shared, "shared-memory", "", "lets callers on this machine put tensors into files of /dev/shm whose names begin with `PREFIX`, over HTTP; off when left out")
	registerConnections(c, &f.connections)
}

// registerConnections adds the flag that bounds connections; checkConnections validates it.
func registerConnections(c *cobra.Command, most *int) {
	c.Flags().IntVar(most, "max-connections", 0, "how many connections each port keeps open; 0 means 4,096, or a quarter of the files that the process may have open where that is less")
}

// checkConnections reports why there cannot be so many connections at most.
func checkConnections(most int) error {
	if most < 0 {
		return fmt.Errorf("--max-connections is %d; it is a number of connections, or 0", most)
	}
	return nil
}

// Limits are the values of the flags.
func (f *limitFlags) Limits() (roles.Limits, error) {
	if err := checkConnections(f.connections); err != nil {
		return roles.Limits{}, err
	}
	l := roles.Limits{Connections: f.connections}
	var err error
	if f.shared != "" {
		if l.Regions, err = oip.NewRegions(f.shared); err != nil {
			return l, fmt.Errorf("--shared-memory: %w", err)
		}
	}
	if l.Bytes, err = bytesFlag("max-bytes", f.bytes, requestBytes()); err != nil {
		return l, err
	}
	l.PipelineBytes, err = bytesFlag("max-bytes-per-pipeline", f.pipeline, 0)
	return l, err
}

func bytesFlag(name, text string, otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := quantity.ParseBytes(text)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%s holds no request", text)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", name, err)
	}
	return n, err
}

// requestBytes is how much memory requests may take in a process by default.
func requestBytes() int64 { return physical() / memoryShare }

// physical is the memory that this process can have in bytes: the machine's, or its
// container's; 0 where unknown.
func physical() int64 {
	total := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			total = kib << 10
		}
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < total {
			total = n
		}
	}
	return total
}

// portFlags are those that set where commands listen. The one of a command that has no flag
// for a port, because it goes by another, comes last.
var portFlags = []string{"http", "grpc", "ui", "addr", "attach", "store-listen", "metrics", "listen"}

// checkPorts reports which flags of a command name ports that other programs have, before
// anything is started.
func checkPorts(c *cobra.Command) error {
	var addresses []string
	for _, name := range portFlags {
		if f := c.Flags().Lookup(name); f != nil {
			addresses = append(addresses, f.Value.String())
		}
	}
	return namePort(c, listen.Free(addresses...))
}

// namePort gives each error about a port the flag of the command that chooses it.
func namePort(c *cobra.Command, err error) error {
	var busy *listen.BusyError
	if !errors.As(err, &busy) || busy.Flag != "" {
		return err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, namePort(c, one))
		}
		return errors.Join(all...)
	}
	named := *busy
	for _, name := range portFlags {
		f := c.Flags().Lookup(name)
		if f != nil && (f.Value.String() == busy.Address || name == "listen") {
			named.Flag = "--" + name
			return &named
		}
	}
	return err
}

// tokenVariable holds the secret that gateways and stores require. It is no flag, because
// other users of a machine can read the arguments of a process.
const tokenVariable = "HARPAGON_TOKEN"

// securityFlags name a process's own certificate and the authorities that it trusts.
type securityFlags struct {
	files  secure.Files
	tokens string
	plain  bool
}

// Register adds the flags to a command.
func (f *securityFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.files.Cert, "tls-cert", "", "`file` with the certificate that this process shows, PEM; read again when it changes, as are the key and the CA")
	c.Flags().StringVar(&f.files.Key, "tls-key", "", "`file` with the private key of --tls-cert, PEM")
	c.Flags().StringVar(&f.files.CA, "tls-ca", "", "`file` with the certificates of trusted CAs; callers of a port may then show a certificate of one of these")
	c.Flags().StringVar(&f.tokens, "tokens", "", "`file` of named tokens that callers of ports may show, with their scopes; read again when it changes")
	c.Flags().BoolVar(&f.plain, "plaintext", false, "let the token of "+tokenVariable+" travel between hosts without TLS, on a network that is trusted")
}

// Credentials are those of the flags and the environment.
func (f *securityFlags) Credentials() (secure.Credentials, error) {
	identity, err := secure.Load(f.files)
	if err != nil {
		return secure.Credentials{}, err
	}
	tokens, err := secure.LoadTokens(f.tokens)
	return secure.Credentials{Token: os.Getenv(tokenVariable), Tokens: tokens, Identity: identity, Plain: f.plain}, err
}

// Files are those that the flags name.
func (f *securityFlags) Files() secure.Files { return f.files }

// recordUsage describes the flag --record of what serves.
const recordUsage = "write the events and decisions of dispatchers to a `file` for harpagon replay when it ends, and on SIGUSR1"
