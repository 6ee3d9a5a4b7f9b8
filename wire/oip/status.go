package oip

import (
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/harpagon/harpagon/wire"
)

// StatusCanceled is the HTTP status of a request whose caller has gone. Nobody
// reads it but logs; it is the number that common proxies use for that.
const StatusCanceled = 499

// statuses are those of one code. The first is what Harpagon answers with; all of
// them are read as the code in answers that state none.
type statuses struct {
	code wire.Code
	http []int
	grpc []codes.Code
}

// table says how codes travel over HTTP and gRPC.
func table() []statuses {
	return []statuses{
		{
			wire.CodeInvalid,
			[]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed},
			[]codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.Unauthenticated, codes.PermissionDenied},
		},
		{wire.CodeNotFound, []int{http.StatusNotFound}, []codes.Code{codes.NotFound}},
		{wire.CodeOverloaded, []int{http.StatusTooManyRequests}, []codes.Code{codes.ResourceExhausted}},
		{wire.CodeUnavailable, []int{http.StatusServiceUnavailable, http.StatusBadGateway}, []codes.Code{codes.Unavailable}},
		{wire.CodeInfeasible, []int{http.StatusServiceUnavailable}, []codes.Code{codes.Unavailable}}, // read as unavailable
		{wire.CodeDeadline, []int{http.StatusGatewayTimeout, http.StatusRequestTimeout}, []codes.Code{codes.DeadlineExceeded}},
		{wire.CodeCanceled, []int{StatusCanceled}, []codes.Code{codes.Canceled}},
	}
}

// Status is the HTTP status of an error's code.
func Status(code wire.Code) int {
	for _, row := range table() {
		if row.code == code {
			return row.http[0]
		}
	}
	return http.StatusInternalServerError
}

// GRPC is the gRPC status code of an error's code.
func GRPC(code wire.Code) codes.Code {
	for _, row := range table() {
		if row.code == code {
			return row.grpc[0]
		}
	}
	return codes.Internal
}

// codeOf is the likeliest code of an HTTP status from a server that states none.
func codeOf(status int) wire.Code {
	for _, row := range table() {
		if slices.Contains(row.http, status) {
			return row.code
		}
	}
	return wire.CodeInternal
}

// OfGRPC is the likeliest code of a gRPC status from a server that states none.
func OfGRPC(status codes.Code) wire.Code {
	for _, row := range table() {
		if slices.Contains(row.grpc, status) {
			return row.code
		}
	}
	return wire.CodeInternal
}
