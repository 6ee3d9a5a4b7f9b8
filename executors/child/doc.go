// Package child runs an engine in a child process, so that an engine's crash
// takes down neither the worker nor the gateway that shares its process.
//
// The child is the same program, started again. Its main begins with
//
//	if child.Requested() {
//		child.Serve(gorgonia.New())
//	}
//
// and from then on child.New("gorgonia", child.Options{}) is an engine like any
// other. One child holds one instance.
//
// # What a crash does
//
// The batch in flight fails with a *wire.Error of code "unavailable" that names
// the engine, the module, the exit status and the panic. Nothing else happens
// by itself: whoever holds the instance either closes it and loads anew, as an
// executor does, or calls Run again, which then starts and loads a new child
// first. Such a Run waits within its context, longer after every failure; after
// several failures to load in a row the instance stays unavailable.
//
// A batch that outlasts its context or Options.RunTimeout is ended by killing
// the child, since nothing else stops a computation that hangs.
//
// # The line between the two
//
// Two pipes carry frames: a length and a kind in 5 bytes, then the body. Models
// and signatures are JSON; tensors are raw bytes, not copied on arrival. A
// third pipe carries nothing: the child ends when it closes, which it does with
// the parent, even while a batch runs. On Linux the kernel is told to do the
// same. What the child prints is forwarded line by line.
//
// Child processes need inherited files, which Windows does not offer.
package child
