package content

import (
	"errors"
	"net/http"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire/oip/oiphttp"
	"github.com/harpagon/harpagon/wire/secure"
)

// Handler serves a folder to workers, and takes what is applied into it. Both are
// for those callers only.
func Handler(f Folder, callers secure.Guard) http.Handler {
	mux := http.NewServeMux()
	scope := func(r *http.Request) secure.Scope {
		if r.Method == http.MethodGet {
			return secure.Join
		}
		return secure.Apply // HEAD, too: who applies looks what is there
	}
	guard := func(next http.HandlerFunc) http.HandlerFunc {
		return oiphttp.AuthorizedFor(callers, scope, "this store", next)
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
		if err := take(f, r); err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	return mux
}

func take(f Folder, r *http.Request) error {
	digest := "sha256:" + r.PathValue("digest")
	if has, err := f.Has(r.Context(), digest); has || err != nil {
		return err
	}
	return f.Put(r.Context(), pipelines.File{Path: "what was sent", Digest: digest, Size: max(r.ContentLength, 0)}, r.Body)
}

func status(err error) int {
	var mismatch *MismatchError
	var full *FullError
	switch {
	case errors.As(err, &mismatch):
		return http.StatusUnprocessableEntity
	case errors.As(err, &full):
		return http.StatusInsufficientStorage
	}
	return http.StatusBadRequest
}
