//go:build !cgo || !linux

package devices

// NVIDIA finds no GPUs: NVML needs a Linux program that is built with cgo.
func NVIDIA() Lister { return none{} }

type none struct{}

func (none) List() ([]GPU, error) { return nil, nil }
