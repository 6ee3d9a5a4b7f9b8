package oip

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/harpagon/harpagon/wire"
)

// StatusCanceled is the HTTP status of a request whose caller has gone. Nobody
// reads it but logs; it is the number that common proxies use for that.
const StatusCanceled = 499

// Status is the HTTP status of an error's code.
func Status(code wire.Code) int {
	switch code {
	case wire.CodeInvalid:
		return http.StatusBadRequest
	case wire.CodeNotFound:
		return http.StatusNotFound
	case wire.CodeOverloaded:
		return http.StatusTooManyRequests
	case wire.CodeUnavailable, wire.CodeInfeasible:
		return http.StatusServiceUnavailable
	case wire.CodeDeadline:
		return http.StatusGatewayTimeout
	case wire.CodeCanceled:
		return StatusCanceled
	}
	return http.StatusInternalServerError
}

// codeOf is the likeliest code of a status from a server that states none.
func codeOf(status int) wire.Code {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		return wire.CodeInvalid
	case http.StatusNotFound:
		return wire.CodeNotFound
	case http.StatusTooManyRequests:
		return wire.CodeOverloaded
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return wire.CodeUnavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return wire.CodeDeadline
	case StatusCanceled:
		return wire.CodeCanceled
	}
	return wire.CodeInternal
}

type errorJSON struct {
	Message string `json:"error"`
	wire.Error
}

// EncodeError writes an error as the protocol's object.
func EncodeError(e *wire.Error) []byte {
	body, err := json.Marshal(errorJSON{Message: e.Error(), Error: *e})
	if err != nil { // cannot happen: strings and numbers only
		return []byte(`{"error":"harpagon: internal error","code":"internal"}`)
	}
	return body
}

// DecodeError makes the typed error whole again. An answer that did not come
// from a gateway, say from a proxy between, gets the code nearest to its
// status and the beginning of the body as its reason.
func DecodeError(status int, body []byte) *wire.Error {
	var j errorJSON
	if err := json.Unmarshal(body, &j); err == nil && j.Code != "" {
		return &j.Error
	}
	e := &wire.Error{Code: codeOf(status), Reason: j.Message}
	if e.Reason == "" {
		const enough = 200
		text := bytes.TrimSpace(body)
		e.Reason = http.StatusText(status)
		if len(text) > 0 {
			e.Reason += ": " + string(text[:min(len(text), enough)])
		}
	}
	return e
}
