// Package hosts makes and ends hosts for a fleet: it is how a provisioner acts. What to
// make and what to end is decided elsewhere (scheduler/autoscale).
//
// A file of the control role declares, per kind of hardware, what hosts of it are like and
// which Driver has them. Process starts `harpagon worker` on this machine; Commands runs
// programs that somebody has written for a cloud. A driver remembers what it has made in a
// folder, one small file a host, written before the host is made and removed after it is
// gone. So a control role may be killed at any time: the next one reads the folder, takes
// over what lives, and ends what was left half made.
package hosts
