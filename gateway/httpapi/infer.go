package httpapi

import (
	"net/http"

	"github.com/harpagon/harpagon/wire/oip/oiphttp"
)

func (s *server) infer(w http.ResponseWriter, r *http.Request) {
	ctx := oiphttp.Traced(r)
	if s.options.Crowded != nil {
		if err := s.options.Crowded(ctx, modelName(r), arrivalOf(r)); err != nil {
			oiphttp.Fail(w, err)
			return
		}
	}
	held := s.options.Bytes.Begin(modelName(r))
	defer held.Release()
	call, err := oiphttp.Read(w, r, oiphttp.Bounds{Most: s.options.MaxBody, Time: bodyTime, Grow: held.Grow})
	if err != nil {
		oiphttp.Fail(w, err)
		return
	}
	call.Request.Pipeline, call.Request.Arrived = modelName(r), arrivalOf(r)
	call.Request.Textual = func(output string) bool { return !call.AsBinary(output) }
	if r.PathValue("version") != "" {
		if _, err := s.model(r); err != nil {
			oiphttp.Fail(w, err)
			return
		}
	}
	ctx, cancel := deadlined(ctx, call.Timeout)
	defer cancel()
	answer, err := s.backend.Infer(ctx, &call.Request)
	if err != nil {
		oiphttp.Fail(w, err)
		return
	}
	oiphttp.WriteAnswer(w, call, answer, held.Grow)
}
