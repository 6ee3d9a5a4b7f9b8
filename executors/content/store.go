package content

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// Store keeps files by their digests. Whoever reads from one checks what it gets.
type Store interface {
	// Open gives the content of a digest; the error is an errLacks where the store
	// does not have it, and anything else where it did not answer.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	// Has reports whether the store has the content.
	Has(ctx context.Context, digest string) (bool, error)
	// Put keeps a file of that digest and size, whose content from gives.
	Put(ctx context.Context, f pipelines.File, from io.Reader) error
	// String is where the store is, for people.
	String() string
}

// OpenStore is the store at an address: a folder, or http(s)://HOST:PORT, where the
// credentials are for the latter.
func OpenStore(address string, c secure.Credentials) (Store, error) {
	if strings.Contains(address, "://") {
		return newRemote(address, c)
	}
	if address == "" {
		return nil, errors.New("content: a store is a folder or an address such as http://control:8092")
	}
	return Folder(address), nil
}

// Folder is a store in a folder, which several hosts may see.
type Folder string

// String is the folder.
func (f Folder) String() string { return string(f) }

// blob is the path of a content. The digest must have been checked.
func (f Folder) blob(digest string) string {
	return filepath.Join(string(f), "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// Open opens the file of a content.
func (f Folder) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return nil, err
	}
	file, err := os.Open(f.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it %w in the store %s", errLacks, f)
	}
	return file, err
}

// Has looks whether there is a file.
func (f Folder) Has(_ context.Context, digest string) (bool, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return false, err
	}
	_, err := os.Stat(f.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put writes a file, whole or not at all. What from gives must have the digest: it
// is a *mismatchError otherwise, found as soon as it is longer than it may be.
func (f Folder) Put(ctx context.Context, file pipelines.File, from io.Reader) error {
	if err := pipelines.CheckDigest(file.Digest); err != nil {
		return err
	}
	to := f.blob(file.Digest)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return f.full(file, err)
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".part-*")
	if err != nil {
		return f.full(file, err)
	}
	defer os.Remove(part.Name()) // fails once it has been renamed
	got, _, err := Sum(io.TeeReader(io.LimitReader(bounded{ctx, from}, file.Size+1), part))
	if err == nil {
		err = part.Chmod(0o555) // read-only from here on, and executable for programs
	}
	if closed := part.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return f.full(file, err)
	case got != file.Digest:
		return &mismatchError{Where: file.Path, Want: file.Digest, Got: got}
	}
	return f.full(file, os.Rename(part.Name(), to))
}

// full types an error of the disk.
func (f Folder) full(file pipelines.File, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &fullError{Folder: string(f), Need: file.Size, Err: err}
	}
	return err
}

// bounded ends reading with a context.
type bounded struct {
	ctx  context.Context
	from io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}

// remote is a store that is served over HTTP.
type remote struct {
	base   string
	client *http.Client
	token  string
}

func newRemote(address string, c secure.Credentials) (*remote, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return nil, fmt.Errorf("content: %q is no store; name a folder, or an address such as https://control:8092 without a password in it", address)
	}
	if err := c.MaySend(at.Hostname(), at.Scheme == "https"); err != nil {
		return nil, fmt.Errorf("content: the store %s: %w", address, err)
	}
	return &remote{base: strings.TrimSuffix(address, "/"), client: c.Identity.HTTP(), token: c.Token}, nil
}

func (r *remote) String() string { return r.base }

// do sends a request for a content; the status is below 300, or 404.
func (r *remote) do(ctx context.Context, method, digest string, body io.Reader, size int64) (*http.Response, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, method, r.base+"/sha256/"+strings.TrimPrefix(digest, "sha256:"), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.ContentLength = size
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	answer, err := r.client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("the store %s does not answer: %w", r, err)
	}
	if answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
		defer answer.Body.Close()
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return nil, fmt.Errorf("the store %s refuses: %s %s", r, answer.Status, strings.TrimSpace(string(why)))
	}
	return answer, nil
}

func (r *remote) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	answer, err := r.do(ctx, http.MethodGet, digest, nil, 0)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusNotFound {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("it %w in the store %s", errLacks, r)
	}
	return answer.Body, nil
}

func (r *remote) Has(ctx context.Context, digest string) (bool, error) {
	answer, err := r.do(ctx, http.MethodHead, digest, nil, 0)
	if err != nil {
		return false, err
	}
	return answer.StatusCode != http.StatusNotFound, answer.Body.Close()
}

func (r *remote) Put(ctx context.Context, f pipelines.File, from io.Reader) error {
	answer, err := r.do(ctx, http.MethodPut, f.Digest, io.NopCloser(from), f.Size)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("the store %s takes nothing; name the address of a control role's --store-listen", r)
	}
	return nil
}

// DefaultStoreLimit is how much a store takes.
const DefaultStoreLimit = 500 << 30

// Handler serves a folder to workers, and takes what is applied into it, up to so many
// bytes in all (0 for DefaultStoreLimit). Both are for those callers only.
func Handler(f Folder, limit int64, callers secure.Guard) http.Handler {
	in := &intake{folder: f, limit: cmp.Or(limit, DefaultStoreLimit)}
	mux := http.NewServeMux()
	scope := func(r *http.Request) secure.Scope {
		if r.Method == http.MethodGet {
			return secure.Join
		}
		return secure.Apply // HEAD, too: apply checks what is there
	}
	guard := func(next http.HandlerFunc) http.HandlerFunc {
		return oip.AuthorizedFor(callers, scope, "this store", next)
	}
	mux.HandleFunc("GET /sha256/{digest}", guard(func(w http.ResponseWriter, r *http.Request) {
		digest := "sha256:" + r.PathValue("digest")
		if err := pipelines.CheckDigest(digest); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.ServeFile(w, r, f.blob(digest))
	}))
	mux.HandleFunc("PUT /sha256/{digest}", guard(func(w http.ResponseWriter, r *http.Request) {
		if err := in.take(r); err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	return mux
}

// intake takes files into a folder, as far as there is room.
type intake struct {
	folder Folder
	limit  int64

	mu     sync.Mutex
	coming int64 // bytes of what is being sent
}

func (in *intake) take(r *http.Request) error {
	f := pipelines.File{Path: "what was sent", Digest: "sha256:" + r.PathValue("digest"), Size: r.ContentLength}
	if has, err := in.folder.Has(r.Context(), f.Digest); has || err != nil {
		return err
	}
	switch {
	case f.Size < 0:
		return errNoLength
	case f.Size > maxFile:
		return tooLarge(f.Path)
	}
	if err := in.reserve(f.Size); err != nil {
		return err
	}
	defer in.free(f.Size)
	return in.folder.Put(r.Context(), f, r.Body)
}

// reserve keeps room for a file that is to come. What has come of others under way
// counts twice, rather than not at all.
func (in *intake) reserve(size int64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	held := in.coming
	for _, info := range infos(in.folder.blob("")) {
		held += info.Size()
	}
	if held+size > in.limit {
		return &fullError{Folder: string(in.folder), Need: size, Held: held, Limit: in.limit, store: true}
	}
	in.coming += size
	return nil
}

func (in *intake) free(size int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.coming -= size
}

// errNoLength refuses a file that is sent without its size.
var errNoLength = errors.New("send the size of the file as Content-Length")

func status(err error) int {
	var mismatch *mismatchError
	var full *fullError
	switch {
	case errors.As(err, &mismatch):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errNoLength):
		return http.StatusLengthRequired
	case errors.As(err, &full):
		return http.StatusInsufficientStorage
	}
	return http.StatusBadRequest
}

// missingError means that the content of a file is at no place that was tried.
type missingError struct {
	File  pipelines.File
	Tried []error // one for each place that was tried
	Away  bool    // a store did not answer: it may be back soon
}

// Error names the file, every place that was tried, and what to do.
func (e *missingError) Error() string {
	var tried []string
	for _, err := range e.Tried {
		tried = append(tried, err.Error())
	}
	s := fmt.Sprintf("content: %s (%s) is nowhere to be had: %s; ", e.File.Path, e.File.Short(), strings.Join(tried, "; "))
	if e.Away {
		return s + "see that the store runs and that --store names it"
	}
	return s + "apply the declaration again where its files are, with the --store of this worker; that takes files as they are then"
}

// Unwrap reports that trying again may help, where a store was away.
func (e *missingError) Unwrap() error {
	if e.Away {
		return wire.ErrUnavailable
	}
	return nil
}

// mismatchError means that what was found has another digest than required.
type mismatchError struct {
	Where     string
	Want, Got string // digests
}

// Error names both contents and what to do.
func (e *mismatchError) Error() string {
	return fmt.Sprintf("%s has other content: %s, and %s was applied", e.Where, pipelines.ShortDigest(e.Got), pipelines.ShortDigest(e.Want))
}

// fullError means that a cache or store has no room.
type fullError struct {
	Folder string
	Need   int64 // bytes of what is to come; 0 where it is names alone
	Held   int64 // bytes that loaded modules use; of a store, that are there or come
	Limit  int64 // bytes; 0 where the disk itself is full
	Err    error // of the disk; may be nil

	store bool
}

// Error reports how much is needed and what to do.
func (e *fullError) Error() string {
	if e.Limit == 0 {
		room := "no room"
		if e.Need > 0 {
			room += " for " + quantity.Bytes(e.Need)
		}
		return fmt.Sprintf("content: %s on the disk of %s: %v; free some, or name a folder on another disk", room, e.Folder, e.Err)
	}
	if e.store {
		return fmt.Sprintf("content: the store %s has no room for %s more: %s of the %s that it may take are used; remove what no service needs from its folder, or give more with harpagon control --store-size", e.Folder, quantity.Bytes(e.Need), quantity.Bytes(e.Held), quantity.Bytes(e.Limit))
	}
	return fmt.Sprintf("content: %s has no room for %s more: loaded modules use %s of the %s that it may take; raise --cache-size", e.Folder, quantity.Bytes(e.Need), quantity.Bytes(e.Held), quantity.Bytes(e.Limit))
}

// Unwrap gives the disk's error.
func (e *fullError) Unwrap() error { return e.Err }

// errLacks is the answer of a store that does not have a content.
var errLacks = errors.New("is not there")
