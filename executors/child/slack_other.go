//go:build !linux

package child

// sleepLoosely does nothing here.
func sleepLoosely() (restore func()) { return func() {} }
