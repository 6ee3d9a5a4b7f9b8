package listen

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// BusyError says that another program has the port.
type BusyError struct {
	Address string // HOST:PORT, as it was asked for
	Flag    string // by which people choose it, such as --http; empty where that is not known
	Err     error
}

// Error says what to do.
func (e *BusyError) Error() string {
	host, port, _ := net.SplitHostPort(e.Address)
	choose := "choose another port (0"
	if e.Flag != "" {
		choose = "choose another with " + e.Flag + " (port 0"
	}
	return fmt.Sprintf("harpagon: port %s on %s is in use by another program; stop that, or %s takes any that is free)", port, host, choose)
}

// Unwrap gives the system's error.
func (e *BusyError) Unwrap() error { return e.Err }

// Free says which of the addresses another program has, before anything is started that
// takes a while. What else may be wrong is told when they are opened; empty ones are left out.
func Free(addresses ...string) error {
	for _, address := range addresses {
		if address == "" {
			continue
		}
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return &BusyError{Address: address, Err: err}
		}
		if err == nil {
			_ = l.Close()
		}
	}
	return nil
}
