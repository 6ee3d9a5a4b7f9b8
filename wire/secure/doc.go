// Package secure says with what the processes of a system prove themselves to each
// other, and is the one place that makes TLS configurations.
//
// An Identity is a certificate with its key and the certificates of whom to
// believe, from files that are read again when they change: connections that are
// open stay, new ones use what the files hold then. Credentials are an Identity, a
// token, or both. Two rules hold everywhere:
//
//   - nothing listens where other hosts reach it unless its callers must show a
//     certificate of its CA, or a token;
//   - no token travels without TLS between hosts, unless Plain says that the
//     network itself is trusted.
//
// A port with both takes either. Package securegrpc has the same for gRPC.
package secure
