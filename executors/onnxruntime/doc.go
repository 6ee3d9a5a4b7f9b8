// Package onnxruntime is the engine for production on a CPU, and the way to
// CUDA and TensorRT: it runs any ONNX model with ONNX Runtime.
//
// ONNX Runtime is a shared library that this package finds when the program
// runs; building needs only cgo. Find looks, in this order, at
//
//  1. Options.Library
//  2. the environment variable ONNXRUNTIME_SHARED_LIBRARY_PATH
//  3. the folder harpagon/onnxruntime of the user's cache folder
//  4. node_modules/onnxruntime-node of the working folder and those above it
//  5. the system's library folders
//
// and reads the version from the file itself, so that a library that is too
// old, or is something else, is refused before any of its code runs. A quick
// way to have one is
//
//	npm install --ignore-scripts onnxruntime-node@1.24.3
//
// # Batches and sizes
//
// The first dimension of every input and output is the batch, or the one that the
// module's BatchAxis names; scalars, constants of a fixed shape and what has
// NoBatchAxis are shared by the requests of a batch, so that only requests that
// bring the same there run together. An unbatched module runs one request at a
// time, with the network's own shapes. A model whose batch dimension is fixed at n
// takes batches of at most n requests, padded. Where other dimensions are open, as
// in networks that take images of any size, a batch is sorted into buckets of equal
// shapes, and each bucket runs by itself; so requests of few different sizes batch
// best.
//
// Inputs and outputs may be of any datatype of the wire, strings (BYTES) included.
// Scalars of FP16, BF16 and BYTES cannot be made with the binding, and strings have
// the batch first.
//
// Every batch size in use runs once when the model is loaded, the largest
// first, because the first run of a size costs several times a later one. For a model with open
// dimensions that needs Model.Feeds, the sizes that the pipeline sends.
//
// Where a caller keeps inputs in place and lends memory for outputs (executors.Placer), as
// package child does, the library reads and writes there and nothing is copied. What shapes the
// outputs of a bucket have is learnt from its first batch; should they depend on what the
// inputs hold, the outputs are copied from then on.
//
// # Threads
//
// A session computes with one thread, the one that calls it: a device of
// hardware "cpu" is one core, and executors side by side use more of them
// better than one session's own pool, whose idle threads spin.
//
// # Providers
//
// The engine "onnxruntime" computes on the CPU, "onnxruntime-cuda" and
// "onnxruntime-tensorrt" on NVIDIA GPUs. They are engines of their own, because
// profiles are kept under an engine's name and version.
//
// Programs that serve run this engine in a child process (package child), since
// a crash inside the library would end the program. InChild gives that engine what needs no
// child: whether the library is there, and signatures.
//
// Without cgo the package builds, and Load returns that it cannot run.
package onnxruntime
