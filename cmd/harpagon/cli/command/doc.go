// Package command is what the commands of harpagon have in common: what they use
// of the world outside (Deps), declarations with their variables and findings,
// the flags that say how to plan, the state folder, the addresses of a gateway
// and of Temporal, JSON and pictures, progress, and exit codes.
package command
