package httpapi

import (
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
)

func (s *server) infer(w http.ResponseWriter, r *http.Request) {
	ctx, caller := oip.Traced(r), listen.CallerOf(r)
	if r.ProtoMajor == 2 { // the time to read an answer begins with that
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	if s.options.Crowded != nil {
		if err := s.options.Crowded(ctx, modelName(r), caller.Arrived(r)); err != nil {
			oip.WriteError(w, err)
			return
		}
	}
	held := s.options.Bytes.Begin(modelName(r))
	defer held.Release()
	call, err := oip.ReadHTTP(w, r, oip.Bounds{Most: s.options.MaxBody, Grow: held.Grow})
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	call.Request.Pipeline, call.Request.Arrived = modelName(r), caller.Arrived(r)
	call.Request.Textual = func(output string) bool { return !call.AsBinary(output) }
	if r.PathValue("version") != "" {
		if _, err := s.model(r); err != nil {
			oip.WriteError(w, err)
			return
		}
	}
	ctx, cancel := deadlined(ctx, call.Timeout)
	defer cancel()
	caller.Place.Begin()
	answer, err := s.backend.Infer(ctx, &call.Request)
	caller.Place.End()
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	oip.WriteAnswer(w, call, answer, held.Grow)
}
