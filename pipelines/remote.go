package pipelines

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Engines that take something else than a model file.
const (
	EngineRemote  = "remote"  // a model on a server
	EngineProcess = "process" // a command that serves the model
)

// Ways in which a batch goes to a server.
const (
	BatchStack  = "stack"  // as one request, its tensors stacked along a new first dimension
	BatchSingle = "single" // as one request each, several at a time
)

// Remote is the address of a model on a server of the Open Inference Protocol.
type Remote struct {
	Scheme        string        // "grpc" or "http", with an s where TLS is used
	Host          string        // HOST:PORT
	Model         string        // name
	Version       string        // empty leaves it to the server
	Batch         string        // BatchStack or BatchSingle; empty: as the model's shapes say
	Timeout       time.Duration // of one request; 0 means the engine's
	TokenVariable string        // environment variable that holds the token; empty: none
}

// IsRemote says whether a module's model is on a server, at an address, instead of
// in a file; see IsFetched for files at addresses.
func IsRemote(model string) bool { return strings.Contains(model, "://") && !IsFetched(model) }

// remoteForm is how an address is written, for errors.
const RemoteForm = "write it as grpc://HOST:PORT/MODEL or http://HOST:PORT/MODEL (grpcs, https for TLS), with ?version=, batch=stack or single, timeout=2s, token_variable=NAME where needed"

// ParseRemote reads an address: SCHEME://HOST:PORT/MODEL?KEY=VALUE&...
func ParseRemote(model string) (Remote, error) {
	scheme, rest, _ := strings.Cut(model, "://")
	r := Remote{Scheme: scheme}
	rest, query, _ := strings.Cut(rest, "?")
	r.Host, r.Model, _ = strings.Cut(rest, "/")
	switch {
	case !slices.Contains([]string{"grpc", "grpcs", "http", "https"}, r.Scheme):
		return r, fmt.Errorf("%q is no protocol of a model server; %s", r.Scheme, RemoteForm)
	case strings.Contains(r.Host, "@"):
		return r, errors.New("the address holds a name or password; name the environment variable that holds the token with ?token_variable=NAME")
	case !regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`).MatchString(r.Host):
		return r, fmt.Errorf("%q is no host; %s", r.Host, RemoteForm)
	case strings.HasPrefix(r.Scheme, "grpc") && !regexp.MustCompile(`:[0-9]+$`).MatchString(r.Host):
		return r, fmt.Errorf("%q has no port; %s", r.Host, RemoteForm)
	case r.Model == "" || strings.HasSuffix(r.Model, "/") || strings.ContainsAny(r.Model, "# \t\n"):
		return r, fmt.Errorf("the address names no model; %s", RemoteForm)
	}
	if query == "" {
		return r, nil
	}
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if err := r.set(key, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *Remote) set(key, value string) (err error) {
	switch key {
	case "version":
		r.Version = value
	case "batch":
		if r.Batch = value; value != BatchStack && value != BatchSingle {
			err = fmt.Errorf("batch=%s means nothing; stack sends a batch as one request, single sends each request by itself", value)
		}
	case "timeout":
		if r.Timeout, err = time.ParseDuration(value); err != nil || r.Timeout <= 0 {
			err = fmt.Errorf("timeout=%s is no duration above zero, such as 2s", value)
		}
	case "token_variable":
		if r.TokenVariable = value; !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(value) {
			err = fmt.Errorf("token_variable=%s is not the name of an environment variable; the token itself never stands in a file", value)
		}
	default:
		keys := []string{"version", "batch", "timeout", "token_variable"}
		err = fmt.Errorf("the address has the setting %q; there is %s.%s", key, strings.Join(keys, ", "), Suggest(key, keys))
	}
	return err
}
