// Package changing has the commands that change what runs, and tell how it has changed:
// apply, rollback, history and down.
package changing
