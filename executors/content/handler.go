package content

import (
	"cmp"
	"errors"
	"net/http"
	"sync"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

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
		return secure.Apply // HEAD, too: who applies looks what is there
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
		return &FullError{Folder: string(in.folder), Need: size, Held: held, Limit: in.limit, store: true}
	}
	in.coming += size
	return nil
}

func (in *intake) free(size int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.coming -= size
}

// errNoLength is for who sends a file and does not say how large it is.
var errNoLength = errors.New("say how many bytes the file has, by Content-Length")

func status(err error) int {
	var mismatch *MismatchError
	var full *FullError
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
