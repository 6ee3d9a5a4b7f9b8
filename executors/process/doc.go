// Package process is the engine "process": a module is served by a command, any
// program that speaks the Open Inference Protocol, version 2, on a Unix socket,
// over HTTP or gRPC. So a network can run in whatever its authors wrote it for,
// such as Python with PyTorch, next to the executor:
//
//	module "classify" {
//	  engine  = "process"
//	  command = ["python3", "./serve.py", "--socket", "{socket}"]
//	  model   = "weights.pt"
//	  inputs  = { image = input.picture }
//	}
//
// # What the command receives
//
// In its arguments {socket} stands for the path of the socket to listen on,
// {model} for that of the declared model and {module} for the module's name; the
// environment has the same as HARPAGON_SOCKET, HARPAGON_MODEL and
// HARPAGON_MODULE, and the largest batch as HARPAGON_MAX_BATCH, all sizes as HARPAGON_BATCHES
// and the device as HARPAGON_DEVICE. Arguments that
// begin with ./ or ../ are paths from the folder of the declaration. On hardware
// "cpu", which is one core, OMP_NUM_THREADS is 1 unless it is set.
//
// The command serves one model under the module's name. What it prints is
// forwarded line by line. When it is to end it gets SIGTERM.
//
// # Life of a command
//
// Every instance has a command of its own, which is ready when the protocol reports the model
// ready. Batches, health and failures are those of package remote. When the command ends by
// itself, a batch in flight fails with code "unavailable" and the status and last line of the
// command, as do all after it: the executor loads the model again, waiting longer after every
// failure, also where the command ended while it was idle.
//
// The command runs behind a supervisor, as package subprocess has it: nothing of it outlives
// the executor, even one that was killed.
//
// It is a foreign program, so that batches go to it by a published protocol, and through shared memory where it
// supports the protocol's extension for that (package remote): package python has what makes such a program of a
// class.
package process
