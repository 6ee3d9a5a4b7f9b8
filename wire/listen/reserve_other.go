//go:build !linux

package listen

func keep([]byte) (port int, release func(), ok bool) { return 0, nil, false }
