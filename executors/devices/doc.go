// Package devices finds what a host can run modules on.
//
// Every CPU core is a device of hardware "cpu", because the engines run one
// thread per batch. Every NVIDIA GPU is a device of the hardware that its name
// says; the names come from the driver through NVML. Where the program is built
// without cgo, or not for Linux, or the machine has no NVIDIA driver, there are
// no GPUs, and that is no error.
//
// NVML also tells how a GPU is doing: memory in use, utilisation, temperature,
// processes. GPUs that are divided (MIG) are offered in their parts. Recent keeps
// the driver from being asked too often.
package devices
