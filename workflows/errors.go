package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
)

// errorType is the type of the innermost application error, empty when there is
// none.
func errorType(err error) (name string) {
	var app *temporal.ApplicationError
	for err != nil && errors.As(err, &app) {
		name, err = app.Type(), app.Unwrap()
	}
	return name
}
