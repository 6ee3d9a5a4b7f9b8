package httpapi

import (
	"encoding/json"
	"io"
	"net"
	"net/http"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// share adds the protocol's extension for system shared memory, where it is let.
func (s *server) share(mux *http.ServeMux) {
	if s.options.Regions == nil {
		return
	}
	const all, one = "/v2/systemsharedmemory/", "/v2/systemsharedmemory/region/{name}/"
	for _, at := range []string{all, one} {
		mux.HandleFunc("GET "+at+"status", s.guardRegions(s.regionStatus))
		mux.HandleFunc("POST "+at+"unregister", s.guardRegions(func(w http.ResponseWriter, r *http.Request) {
			oip.WriteHTTP(w, nil, s.options.Regions.Unregister(owner(r), r.PathValue("name")))
		}))
	}
	mux.HandleFunc("POST "+one+"register", s.guardRegions(s.register))
}

// guardRegions requires a caller on this machine whose token covers all models.
func (s *server) guardRegions(next http.HandlerFunc) http.HandlerFunc {
	return oip.Authorized(s.options.Callers.For(secure.Infer), "this gateway", func(w http.ResponseWriter, r *http.Request) {
		if !local(r) {
			oip.WriteError(w, wire.Errorf(wire.CodeInvalid, "", "shared memory is for callers on the gateway's machine, by its loopback address and without a proxy or a browser between; send tensors in requests"))
			return
		}
		next(w, r)
	})
}

// local reports whether the caller is on this machine. What a proxy passes on is its client's, and
// what a browser sends is of whose page it shows.
func local(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "Via", "Origin"} {
		if r.Header[name] != nil {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && secure.Loopback(host)
}

// owner is whose regions a caller means: those of its token.
func owner(r *http.Request) string { return wire.TenantOf(r.Context()).Caller() }

// regionsOf is what the caller's tensors may lie in; nil for nothing.
func (s *server) regionsOf(r *http.Request) *oip.CallerRegions {
	if s.options.Regions == nil || !local(r) {
		return nil
	}
	return s.options.Regions.Of(owner(r))
}

func (s *server) regionStatus(w http.ResponseWriter, r *http.Request) {
	all, err := s.options.Regions.Status(owner(r), r.PathValue("name"))
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	body, err := json.Marshal(all)
	oip.WriteHTTP(w, body, err)
}

func (s *server) register(w http.ResponseWriter, r *http.Request) {
	const enough = 16 << 10
	body, _ := io.ReadAll(io.LimitReader(r.Body, enough))
	var region oip.RegionStatus
	if err := json.Unmarshal(body, &region); err != nil {
		oip.WriteError(w, wire.Errorf(wire.CodeInvalid, "", "the body is not valid JSON of the protocol: %v", err))
		return
	}
	region.Name = r.PathValue("name")
	oip.WriteHTTP(w, nil, s.options.Regions.Register(owner(r), region))
}
