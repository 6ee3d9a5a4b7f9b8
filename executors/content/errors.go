package content

import (
	"errors"
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
)

// MissingError says that the content of a file is nowhere to be had.
type MissingError struct {
	File  pipelines.File
	Tried []error // one for each place that was asked
	Away  bool    // a store did not answer: it may be back soon
}

// Error names the file, every place that was asked, and what to do.
func (e *MissingError) Error() string {
	var tried []string
	for _, err := range e.Tried {
		tried = append(tried, err.Error())
	}
	s := fmt.Sprintf("content: %s (%s) is nowhere to be had: %s; ", e.File.Path, e.File.Short(), strings.Join(tried, "; "))
	if e.Away {
		return s + "see that the store runs and that --store names it"
	}
	return s + "apply the declaration again where its files are, with the --store of this worker; that takes files as they are then"
}

// Unwrap says that trying again may help, where a store was away.
func (e *MissingError) Unwrap() error {
	if e.Away {
		return wire.ErrUnavailable
	}
	return nil
}

// MismatchError says that something else was found than what was asked for.
type MismatchError struct {
	Where     string
	Want, Got string // digests
}

// Error names both contents and what to do.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s has other content: %s, and %s was applied", e.Where, pipelines.ShortDigest(e.Got), pipelines.ShortDigest(e.Want))
}

// FullError says that a cache or store has no room.
type FullError struct {
	Folder string
	Need   int64 // bytes of what is to come; 0 where it is names alone
	Held   int64 // bytes that loaded modules use; of a store, that are there or come
	Limit  int64 // bytes; 0 where the disk itself is full
	Err    error // of the disk; may be nil

	store bool
}

// Error says how much is needed and what to do.
func (e *FullError) Error() string {
	if e.Limit == 0 {
		room := "no room"
		if e.Need > 0 {
			room += " for " + quantity.Bytes(e.Need)
		}
		return fmt.Sprintf("content: %s on the disk of %s: %v; free some, or name a folder on another disk", room, e.Folder, e.Err)
	}
	if e.store {
		return fmt.Sprintf("content: the store %s has no room for %s more: %s of the %s that it may take are used; remove what no service needs from its folder, or give more with harpagon control --store-size", e.Folder, quantity.Bytes(e.Need), quantity.Bytes(e.Held), quantity.Bytes(e.Limit))
	}
	return fmt.Sprintf("content: %s has no room for %s more: loaded modules use %s of the %s that it may take; raise --cache-size", e.Folder, quantity.Bytes(e.Need), quantity.Bytes(e.Held), quantity.Bytes(e.Limit))
}

// Unwrap gives the disk's error.
func (e *FullError) Unwrap() error { return e.Err }

// errLacks is what a store says that does not have a content.
var errLacks = errors.New("is not there")
