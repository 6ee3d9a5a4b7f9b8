// Package httpserve serves an http.Handler over HTTP/1.1 for less processor time than
// net/http alone.
//
// net/http starts a goroutine for every request, which waits for the client to hang up
// and is stopped when the request ends. Where a request is answered within milliseconds
// that is a third of what the server costs. Here one goroutine serves a connection, and
// all connections together are looked at every 50 ms for clients that are gone, whose
// requests' contexts end then.
//
// A request is served here when it is plain: GET or POST of HTTP/1.1 with a head of at most
// 4 KiB, without a transfer encoding, an expectation, or an upgrade. Everything else
// is net/http's: the connection is handed over with what was read of it, and so is one
// whose client cannot be watched (systems but Linux). Heads are read by net/http in any
// case, and what it would refuse is left to it to refuse. HTTP/2 is net/http's, too.
//
// Handlers meet less than with net/http: answers have no trailers and nothing before them
// (1xx), connections cannot be hijacked, and a request's context knows neither the server
// nor the local address.
package httpserve
