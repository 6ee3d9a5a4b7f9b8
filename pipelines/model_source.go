package pipelines

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// File is one file that a module needs where it runs, known by what is in it:
// whoever runs the module takes the content of that digest from wherever it is,
// and nothing else.
type File struct {
	Path    string // absolute, on the machine where it was declared; or its address
	Digest  string // "sha256:" and 64 hexadecimal digits
	Size    int64  // in bytes
	Program bool   `json:",omitempty"` // may be executed
}

// Short is the beginning of the file's digest, for people.
func (f File) Short() string { return ShortDigest(f.Digest) }

// Name is the last element of the file's path or address.
func (f File) Name() string {
	name, _, _ := strings.Cut(f.Path, "?")
	return name[strings.LastIndexByte(name, '/')+1:]
}

// ShortDigest is the beginning of a digest, enough to tell it apart: "sha256:"
// and twelve digits.
func ShortDigest(digest string) string { return digest[:min(len(digest), len(digestPrefix)+12)] }

// digestPrefix is how every digest begins.
const digestPrefix = "sha256:"

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// CheckDigest reports what is wrong with a digest that somebody wrote.
func CheckDigest(digest string) error {
	if !digestForm.MatchString(digest) {
		return fmt.Errorf("%q is no digest: write %s and the 64 hexadecimal digits that sha256sum prints", digest, digestPrefix)
	}
	return nil
}

// FetchSchemes are the protocols of addresses from which a model's file is
// fetched by a command of the user's own.
func FetchSchemes() []string { return []string{"oci", "s3", "gs", "hf"} }

// IsFetched reports whether a module's model is the address of a file, which is
// fetched when the declaration is applied: of http and https those that name an
// ONNX file, and all of FetchSchemes. All other addresses are of models on
// servers.
func IsFetched(model string) bool {
	scheme, rest, found := strings.Cut(model, "://")
	if !found {
		return false
	}
	if scheme == "http" || scheme == "https" {
		path, _, _ := strings.Cut(rest, "#")
		path, _, _ = strings.Cut(path, "?")
		return strings.HasSuffix(path, ".onnx")
	}
	return slices.Contains(FetchSchemes(), scheme)
}

// FetchAddress divides the address of a file into where it is and the digest that
// the declaration asks for after a #; empty where it asks for none.
func FetchAddress(model string) (address, digest string) {
	address, digest, _ = strings.Cut(model, "#")
	return address, digest
}

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

// IsRemote reports whether a module's model is on a server, at an address, instead of
// in a file; see IsFetched for files at addresses.
func IsRemote(model string) bool { return strings.Contains(model, "://") && !IsFetched(model) }

// RemoteForm is how an address is written, for errors.
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

// Source reports what the module is computed from.
func (m *Module) Source() Source {
	switch {
	case m.Function != "":
		return SourceFunction
	case IsRemote(m.Model):
		return SourceAddress
	case len(m.Command) > 0:
		return SourceCommand
	case m.Model != "":
		return SourceFile
	}
	return SourceProfile
}

// EngineName is the name of the engine that the module asks for; where it leaves that open, of
// the one that runs its source everywhere.
func (m *Module) EngineName() string {
	source := m.Source()
	if source != SourceFunction && m.Engine != "" && m.Engine != EngineAuto {
		return m.Engine
	}
	all := Engines()
	return all[slices.IndexFunc(all, func(e Engine) bool {
		return e.Takes == source && (e.AnyAxis || len(m.Libraries) == 0 && !m.State || source != SourceFile)
	})].Name
}

// takes reports whether the engine that a module names is made for a source. One that is left open,
// emulates, or is none of this project may be given anything.
func (m *Module) takes(s Source) bool {
	e, known := EngineNamed(m.Engine)
	return !known || e.Takes == SourceProfile || e.Takes == s
}

// IsFileParameter reports whether a parameter of that name is the path of a file.
func IsFileParameter(name string) bool { return strings.HasSuffix(name, "_file") }

// ParameterFiles are the files that the parameters of a module's function name.
func (m *Module) ParameterFiles() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		if path, ok := m.Parameters[name].(string); ok && path != "" && IsFileParameter(name) {
			all = append(all, path)
		}
	}
	return all
}

// Plain turns a Go value into what a declaration holds: a float64, string,
// bool, []any or map[string]any of these. It takes numbers, strings and booleans
// of any kind, slices and arrays, maps with strings as keys, and pointers to
// these.
func Plain(value any) (any, error) {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return wholeNumber(float64(v.Int()), v.Int() == int64(float64(v.Int())), value)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return wholeNumber(float64(v.Uint()), v.Uint() == uint64(float64(v.Uint())), value)
	case reflect.Float32, reflect.Float64:
		if !IsFinite(v.Float()) {
			return nil, fmt.Errorf("%v is no number that a declaration can hold", value)
		}
		return v.Float(), nil
	case reflect.Slice, reflect.Array:
		return plainList(v)
	case reflect.Map:
		return plainMap(v)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return Plain(v.Elem().Interface())
		}
	}
	return nil, fmt.Errorf("a declaration cannot hold a %T; use numbers, strings, booleans, and slices and maps of these", value)
}

// wholeNumber keeps only those that a float64 holds exactly.
func wholeNumber(x float64, same bool, value any) (any, error) {
	if !same || math.Abs(x) > 1<<53 {
		return nil, fmt.Errorf("%v is too large a number for a declaration", value)
	}
	return x, nil
}

func plainList(v reflect.Value) (any, error) {
	list := make([]any, v.Len())
	for i := range list {
		var err error
		if list[i], err = Plain(v.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func plainMap(v reflect.Value) (any, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("the keys of a map are strings, not %s", v.Type().Key())
	}
	all := make(map[string]any, v.Len())
	for _, key := range v.MapKeys() {
		e, err := Plain(v.MapIndex(key).Interface())
		if err != nil {
			return nil, err
		}
		all[key.String()] = e
	}
	return all, nil
}

// IsFinite reports NaN and infinities, which arithmetic in HCL can produce.
func IsFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
