package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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

// statusCanceled is the HTTP status of a request whose caller has gone. Nobody
// reads it but logs; it is the number that common proxies use for that.
const statusCanceled = 499

// Status codes of gRPC, by their numbers: whoever speaks HTTP alone need not compile gRPC.
const (
	canceled          uint32 = 1
	deadlineExceeded  uint32 = 4
	notFound          uint32 = 5
	permissionDenied  uint32 = 7
	resourceExhausted uint32 = 8
	invalidArgument   uint32 = 3
	outOfRange        uint32 = 11
	internal          uint32 = 13
	unavailable       uint32 = 14
	unauthenticated   uint32 = 16
)

// statuses are those of one code. The first is what Harpagon answers with; all of
// them are read as the code in answers that state none.
type statuses struct {
	code wire.Code
	http []int
	grpc []uint32
}

// table states how codes travel over HTTP and gRPC.
var table = []statuses{
	{
		wire.CodeInvalid,
		[]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed},
		[]uint32{invalidArgument, outOfRange, unauthenticated, permissionDenied},
	},
	{wire.CodeNotFound, []int{http.StatusNotFound}, []uint32{notFound}},
	{wire.CodeOverloaded, []int{http.StatusTooManyRequests, http.StatusInsufficientStorage}, []uint32{resourceExhausted}},
	{wire.CodeUnavailable, []int{http.StatusServiceUnavailable, http.StatusBadGateway}, []uint32{unavailable}},
	{wire.CodeInfeasible, []int{http.StatusServiceUnavailable}, []uint32{unavailable}}, // read as unavailable
	{wire.CodeDeadline, []int{http.StatusGatewayTimeout, http.StatusRequestTimeout}, []uint32{deadlineExceeded}},
	{wire.CodeCanceled, []int{statusCanceled}, []uint32{canceled}},
}

// Status is the HTTP status of an error's code.
func Status(code wire.Code) int {
	for _, row := range table {
		if row.code == code {
			return row.http[0]
		}
	}
	return http.StatusInternalServerError
}

// GRPC is the number of the gRPC status code of an error's code.
func GRPC(code wire.Code) uint32 {
	for _, row := range table {
		if row.code == code {
			return row.grpc[0]
		}
	}
	return internal
}

// codeOf is the likeliest code of an HTTP status from a server that states none.
func codeOf(status int) wire.Code {
	for _, row := range table {
		if slices.Contains(row.http, status) {
			return row.code
		}
	}
	return wire.CodeInternal
}

// OfGRPC is the likeliest code of a gRPC status from a server that states none.
func OfGRPC(status uint32) wire.Code {
	for _, row := range table {
		if slices.Contains(row.grpc, status) {
			return row.code
		}
	}
	return wire.CodeInternal
}

// ErrLost is wrapped by errors of clients whose connection ended between the
// request and its answer: the server may have computed it.
var ErrLost = errors.New("the connection ended before the answer")

// WrapLost makes an error that wraps ErrLost and the typed error.
func WrapLost(e *wire.Error) error { return &lost{e} }

type lost struct{ typed *wire.Error }

func (l *lost) Error() string   { return l.typed.Error() }
func (l *lost) Unwrap() []error { return []error{l.typed, ErrLost} }
