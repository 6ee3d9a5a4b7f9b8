package oip

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/harpagon/harpagon/wire"
)

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
			e.Reason += ": " + strings.ToValidUTF8(string(text[:min(len(text), enough)]), "")
		}
	}
	return e
}
