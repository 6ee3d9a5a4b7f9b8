// Package attachgrpc carries the stream between gateway and executor over gRPC,
// for hosts apart. Each side sees an attach.Stream like that of attach.Pipe:
// Send never blocks, and what was sent before Close still arrives.
//
// The gateway calls Serve with Gateway.Attach; a worker's Host dials with
// Dialer.Dial. Both must have the same token. Without TLS the token and all
// tensors travel in the clear: set TLS outside a trusted network.
package attachgrpc
