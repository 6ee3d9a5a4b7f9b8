// Package provision creates, resizes and deletes a provider's functions before
// traffic moves to them and after it has left.
//
// A Provisioner is how a provider is told. Hook is one over HTTP, for any cloud in
// front of which somebody puts a few lines that translate; harpagon provider answers
// it on this machine, and its host is a Provisioner itself, for programs that have it
// inside. Ensure brings a provider to what is wanted, by any of them. It may be
// repeated: what is there already is left alone.
//
// # The hook
//
//	GET    URL?function=NAME   what there is of the function: {"functions": [Function, ...]}
//	PUT    URL/NAME            create or resize it, with a Function as the body
//	DELETE URL/NAME            delete it; one that is not there is deleted
//
// PUT and DELETE answer 200, 201 or 204 when it is done, or 202 when it has begun; then
// the list says "pending" as its state until it is "ready", or "failed" and a reason.
// Any other status is a refusal, and the answer's text, or its member "error", says
// why.
package provision
