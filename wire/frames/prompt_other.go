//go:build !unix

package frames

const canWriteAtOnce = false

func writeAtOnce(uintptr, []byte) (int, error) { return 0, nil }
