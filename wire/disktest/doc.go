// Package disktest is for tests only: disks that are small, full or may only be read. They are
// in memory, and only root may have them.
package disktest
