// Package server lets gateways and executors of other processes use a dispatcher: it
// speaks wire/queue with gateways, who tell of requests by names, sizes and deadlines,
// and wire/attach with executors, who are told which batches to run. Tensors pass neither.
//
// A Server decides for the services that it owns by an epoch; gateways and executors obey
// the highest that they know, so one that was replaced without noticing decides nothing
// any more. What a gateway that goes had waiting is taken back; what was told to an owner
// that goes is told by the gateways to the next.
package server
