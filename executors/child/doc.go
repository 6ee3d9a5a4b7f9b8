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
// other. One child holds one instance, or all that LoadTogether was given: models
// that share a device then share what the process takes of it, and one runs at a
// time.
//
// # What a crash does
//
// The batch in flight fails with a *wire.Error of code "unavailable" that names
// the engine, the module, the exit status and the panic or last line, and so does every later
// call to the instance, and to those that were loaded together with it: its holder closes it
// and loads again, as an executor does.
//
// A batch that outlasts its context or Options.RunTimeout is ended by killing
// the child, since nothing else stops a computation that hangs.
//
// # The line between the two
//
// The child is started as package subprocess has it: it ends with its parent, even while a batch
// runs, and what it prints is forwarded line by line. Requests and answers pass through pipes of
// their own. Models and signatures are JSON.
//
// The data of the tensors lie in memory that both see, batches in one half and
// results in the other; the messages say where (heads). A child holds at most two batches,
// the one that it computes and the next (instance.go), and each has parts of both
// halves for itself, so that they need no locks or turns: the parent writes the one
// before it sends a message, and has copied what it needs of the other before it uses the parts
// again. All rows of an input lie together and batches of one shape always at the same places,
// so that an engine that is an executors.Placer reads and writes them where they lie. A batch
// then costs one copy of its inputs and one of its outputs, as in one process. The child's death
// shows in the pipe, at once.
//
// The messages have a codec of their own: with encoding/gob a batch of one row of 1 kB, there and
// back, took 46 µs of processor time where it takes 28.
package child
