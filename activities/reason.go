package activities

import (
	"errors"

	"go.temporal.io/sdk/temporal"
)

// Reason is the innermost message of an error that came through activities and
// child workflows, without Temporal's wrapping, which says where and not why.
func Reason(err error) string {
	var app *temporal.ApplicationError
	for errors.As(err, &app) {
		inner := app.Unwrap()
		if inner == nil || !errors.As(inner, new(*temporal.ApplicationError)) {
			return app.Message()
		}
		err = inner
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return "timed out (" + timeout.TimeoutType().String() + ")"
	}
	return err.Error()
}

// ReasonType is the type of the innermost application error, empty when there is
// none.
func ReasonType(err error) (name string) {
	var app *temporal.ApplicationError
	for err != nil && errors.As(err, &app) {
		name, err = app.Type(), app.Unwrap()
	}
	return name
}

// Failed is the error with which a workflow ends that has failed. Temporal takes one that fails
// because something that it called was cancelled for cancelled itself, and whoever waits for
// it could not tell that from somebody ending it.
func Failed(err error, cancelled bool) error {
	if cancelled || !errors.As(err, new(*temporal.CanceledError)) && !errors.As(err, new(*temporal.TerminatedError)) {
		return err
	}
	return temporal.NewApplicationError(Reason(err), ReasonType(err))
}
