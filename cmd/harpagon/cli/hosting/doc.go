// Package hosting has the commands that run one role each, for fleets of several hosts:
// gateway, dispatcher, worker and control.
package hosting
