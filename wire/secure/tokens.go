package secure

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Scope is what a named token is good for.
type Scope string

// The scopes. Infer may be narrowed to one service, as in infer:traffic.
const (
	Infer Scope = "infer" // send requests, and read the metadata of what they go to
	Read  Scope = "read"  // look: metadata, statistics, metrics, console
	Apply Scope = "apply" // bring the files of a declaration to a store
	Join  Scope = "join"  // be a role: attach as a worker, take files from a store
)

// InferAt is the scope of requests to one service; one application of a function belongs
// to it.
func InferAt(service string) Scope {
	service, _, _ = strings.Cut(service, "/")
	return Infer + ":" + Scope(service)
}

// What weights and rates may be.
const least, most = 1e-3, 1e6

// scopes lists them for messages.
const scopes = "infer, infer:SERVICE, read, apply, join"

// covers reports that a scope includes another.
func (s Scope) covers(asked Scope) bool {
	return s == asked || s == Infer && strings.HasPrefix(string(asked), string(Infer)+":")
}

func (s Scope) valid() bool {
	service, narrowed := strings.CutPrefix(string(s), string(Infer)+":")
	return narrowed && service != "" || slices.Contains([]Scope{Infer, Read, Apply, Join}, s)
}

// Named is one token of a file.
type Named struct {
	wire.Tenant
	Scopes []Scope
	hash   [sha256.Size]byte
}

// may reports whether the token has a scope.
func (n *Named) may(asked Scope) bool {
	return slices.ContainsFunc(n.Scopes, func(s Scope) bool { return s.covers(asked) })
}

// Tokens are named tokens from a file that is read again when it changes. Each line has
// a name, scopes with commas between them, the SHA-256 of the token in hexadecimal, and
// what its share and its limit are where they are not those of all:
//
//	alice  infer:traffic,read  sha256:5e88...
//	batch  infer               sha256:9f86...  weight=0.5 rate=20
//
// Empty lines and those that begin with # are skipped. Tokens must be long and random: their
// hashes keep only such ones secret.
type Tokens struct {
	path string

	mu     sync.Mutex
	looked time.Time
	text   []byte
	all    []Named
	failed error
}

// LoadTokens reads the file; without one there are no tokens, and the result is nil.
func LoadTokens(path string) (*Tokens, error) {
	if path == "" {
		return nil, nil
	}
	t := &Tokens{path: path}
	t.read(time.Now())
	return t, t.failed
}

// read takes what the file holds now; what cannot be read changes nothing.
func (t *Tokens) read(now time.Time) {
	t.looked = now
	text, err := os.ReadFile(t.path)
	if err == nil && bytes.Equal(text, t.text) && t.failed == nil {
		return
	}
	var all []Named
	if err == nil {
		all, err = ParseTokens(text)
	}
	if t.failed = err; err != nil {
		t.failed = fmt.Errorf("secure: --tokens %s: %w", t.path, err)
		return
	}
	t.text, t.all = text, all
}

// Failed is why the file as it is now could not be taken, so that the tokens before still
// hold; nil where it could.
func (t *Tokens) Failed() error {
	if t == nil {
		return nil
	}
	t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *Tokens) now() []Named {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := time.Now(); at.Sub(t.looked) >= lookEvery {
		t.read(at)
	}
	return t.all
}

// ofRoles are the hashes of the tokens that are good for being a role.
func (t *Tokens) ofRoles() (all []byte) {
	if t == nil {
		return nil
	}
	for _, n := range t.now() {
		if n.may(Join) {
			all = append(all, n.hash[:]...)
		}
	}
	return all
}

// find returns the owner of the token that was sent; nil where it has none. All are compared,
// so that the time reveals nothing.
func (t *Tokens) find(authorization []string) (found *Named) {
	if t == nil {
		return nil
	}
	all := t.now()
	for _, given := range authorization {
		token, ok := strings.CutPrefix(given, "Bearer ")
		sum := digest(token)
		for i := range all {
			if same := subtle.ConstantTimeCompare(sum[:], all[i].hash[:]) == 1; ok && same {
				found = &all[i]
			}
		}
	}
	return found
}

// ParseTokens reads the lines of a file of tokens.
func ParseTokens(text []byte) (all []Named, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseToken(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case slices.ContainsFunc(all, func(o Named) bool { return o.Name == one.Name }):
			return nil, fmt.Errorf("line %d: there is a token %q already; a name has one", n, one.Name)
		case slices.ContainsFunc(all, func(o Named) bool { return o.hash == one.hash }):
			return nil, fmt.Errorf("line %d: token %q is the same as another; make a new one", n, one.Name)
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no token, so that every caller would be refused; write lines such as: alice infer:traffic,read sha256:HEX")
	}
	return all, nil
}

func parseToken(line string) (n Named, err error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return n, fmt.Errorf("%d words, and a line has three: name, scopes, sha256:HEX (scopes have commas and no spaces between them), and weight=NUMBER, rate=NUMBER where wanted", len(fields))
	}
	n.Name = fields[0]
	for _, s := range strings.Split(fields[1], ",") {
		if !Scope(s).valid() {
			return n, fmt.Errorf("there is no scope %q; the scopes are %s", s, scopes)
		}
		n.Scopes = append(n.Scopes, Scope(s))
	}
	text, ok := strings.CutPrefix(fields[2], "sha256:")
	hash, err := hex.DecodeString(text)
	if !ok || err != nil || len(hash) != len(n.hash) {
		return n, errors.New("the token's hash is not sha256: with 64 hexadecimal digits; make it with: printf %s \"$TOKEN\" | sha256sum")
	}
	copy(n.hash[:], hash)
	if n.hash == digest("") {
		return n, errors.New("the token is empty; make one with: openssl rand -hex 32")
	}
	return n, n.grant(fields[3:])
}

// grant reads the words behind the hash.
func (n *Named) grant(words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var field *float64
		switch key {
		case "weight":
			field = &n.Weight
		case "rate":
			field = &n.Rate
		default:
			return fmt.Errorf("%q is not known; behind the hash may stand weight=NUMBER, its share beside others', and rate=NUMBER, the requests per second that it may send", word)
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= least && x <= most) {
			return fmt.Errorf("%s is no number from %g to %g, such as %s=2", word, least, most, key)
		}
		if *field != 0 {
			return fmt.Errorf("%s is given twice", key)
		}
		*field = x
	}
	return nil
}
