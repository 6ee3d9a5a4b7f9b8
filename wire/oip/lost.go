package oip

import (
	"errors"

	"github.com/harpagon/harpagon/wire"
)

// ErrLost is wrapped by errors of clients whose connection ended between the
// request and its answer: the server may have computed it.
var ErrLost = errors.New("the connection ended before the answer")

// Lost makes an error that wraps ErrLost and the typed error.
func Lost(e *wire.Error) error { return &lost{e} }

type lost struct{ typed *wire.Error }

func (l *lost) Error() string   { return l.typed.Error() }
func (l *lost) Unwrap() []error { return []error{l.typed, ErrLost} }
