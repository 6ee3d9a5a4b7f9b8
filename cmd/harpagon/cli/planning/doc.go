// Package planning has the commands that need nothing to run: init, fmt, validate,
// plan, compare, simulate, replay and reproduce.
package planning
