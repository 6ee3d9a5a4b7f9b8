package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// extend adds the protocol's extensions for the list of models, their configurations and
// statistics.
func (s *server) extend(mux *http.ServeMux) {
	mux.HandleFunc("POST /v2/repository/index", s.guard(s.index))
	for _, what := range []string{"load", "unload"} {
		mux.HandleFunc("POST /v2/repository/models/{name}/"+what, s.guard(func(w http.ResponseWriter, r *http.Request) {
			oip.WriteError(w, oip.Unmanaged(what, r.PathValue("name")))
		}))
	}
	for _, model := range []string{"/v2/models/{name}", "/v2/models/{name}/versions/{version}"} {
		mux.HandleFunc("GET "+model+"/config", s.guardModel(s.config))
	}
	s.share(mux)
	if s.options.Statistics == nil {
		return
	}
	mux.HandleFunc("GET /v2/models/stats", s.guard(s.allStatistics))
	for _, model := range []string{"/v2/models/{name}", "/v2/models/{name}/versions/{version}"} {
		mux.HandleFunc("GET "+model+"/stats", s.guard(s.modelStatistics))
	}
}

// nowhere answers what no handler of the mux is for: 405 where another method has one, else 404.
func nowhere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var others []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			asked := *r
			asked.Method = method
			if _, pattern := mux.Handler(&asked); pattern != "/" && pattern != "" {
				others = append(others, method)
			}
		}
		if len(others) == 0 {
			oip.WriteError(w, wire.Errorf(wire.CodeNotFound, "", "%s is no path of the protocol; models are at /v2/models/NAME", r.URL.Path))
			return
		}
		w.Header().Set("Allow", strings.Join(others, ", "))
		oip.WriteMethodNotAllowed(w, r, others)
	}
}

// config is the configuration of a pipeline as a model.
func (s *server) config(w http.ResponseWriter, r *http.Request) {
	m, err := s.model(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	body, err := oip.EncodeConfig(m)
	oip.WriteHTTP(w, body, err)
}

type indexJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// index lists the pipelines; the body may restrict it to those that are ready.
func (s *server) index(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Ready bool `json:"ready"`
	}
	const enough = 4 << 10
	body, _ := io.ReadAll(io.LimitReader(r.Body, enough))
	if len(body) > 0 {
		if err := json.Unmarshal(body, &asked); err != nil {
			oip.WriteError(w, wire.Errorf(wire.CodeInvalid, "", "the body is not valid JSON of the protocol: %v", err))
			return
		}
	}
	all, err := s.all(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	out := []indexJSON{}
	for _, m := range all {
		one := indexJSON{Name: m.Pipeline, Version: strconv.Itoa(m.Generation), State: "READY"}
		if !m.Ready {
			one.State, one.Reason = "UNAVAILABLE", m.Reason
		}
		if m.Ready || !asked.Ready {
			out = append(out, one)
		}
	}
	answer, err := json.Marshal(out)
	oip.WriteHTTP(w, answer, err)
}

// all are the pipelines, in order of name.
func (s *server) all(r *http.Request) ([]*wire.Metadata, error) {
	names, err := s.backend.Pipelines(r.Context())
	if err != nil {
		return nil, err
	}
	var all []*wire.Metadata
	for _, name := range names {
		if m, err := s.backend.Metadata(r.Context(), name); err == nil { // or it has just gone
			all = append(all, m)
		}
	}
	return all, nil
}

func (s *server) allStatistics(w http.ResponseWriter, r *http.Request) {
	all, err := s.all(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	s.tell(w, all)
}

func (s *server) modelStatistics(w http.ResponseWriter, r *http.Request) {
	m, err := s.model(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	s.tell(w, []*wire.Metadata{m})
}

type statisticsJSON struct {
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	Last       int64       `json:"last_inference"` // milliseconds since 1970; 0 before the first
	Inferences int64       `json:"inference_count"`
	Executions int64       `json:"execution_count"`
	Requests   requestJSON `json:"inference_stats"`
	Batches    []batchJSON `json:"batch_stats"`
}

type requestJSON struct {
	Success gateway.DurationStatistics `json:"success"`
	Fail    gateway.DurationStatistics `json:"fail"`
	Queue   gateway.DurationStatistics `json:"queue"`
	Input   gateway.DurationStatistics `json:"compute_input"`
	Compute gateway.DurationStatistics `json:"compute_infer"`
	Output  gateway.DurationStatistics `json:"compute_output"`

	// There is no cache; perf_analyzer reads these all the same.
	CacheHit  gateway.DurationStatistics `json:"cache_hit"`
	CacheMiss gateway.DurationStatistics `json:"cache_miss"`
}

type batchJSON struct {
	Size    int                        `json:"batch_size"`
	Input   gateway.DurationStatistics `json:"compute_input"`
	Compute gateway.DurationStatistics `json:"compute_infer"`
	Output  gateway.DurationStatistics `json:"compute_output"`
}

// tell writes the statistics of pipelines.
func (s *server) tell(w http.ResponseWriter, all []*wire.Metadata) {
	out := make([]statisticsJSON, 0, len(all))
	for _, m := range all {
		p := s.options.Statistics(m.Pipeline)
		one := statisticsJSON{
			Name: m.Pipeline, Version: strconv.Itoa(m.Generation), Inferences: p.Success.Count, Executions: p.Executed,
			Requests: requestJSON{Success: p.Success, Fail: p.Fail, Queue: p.Queue, Compute: p.Compute}, Batches: []batchJSON{},
		}
		if !p.Last.IsZero() {
			one.Last = p.Last.UnixMilli()
		}
		for _, b := range p.Batches {
			one.Batches = append(one.Batches, batchJSON{Size: b.Size, Compute: b.Compute})
		}
		out = append(out, one)
	}
	answer, err := json.Marshal(map[string]any{"model_stats": out})
	oip.WriteHTTP(w, answer, err)
}
