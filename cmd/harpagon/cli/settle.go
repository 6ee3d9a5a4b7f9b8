package cli

import (
	"context"
	"os"
	"runtime/debug"
)

// Settle prepares the process for serving. It may start the program anew in its place, so
// nothing may have been begun before.
//
// Garbage is collected when the heap has grown to four times what lives, instead of to
// twice: with an embedded Temporal tens of megabytes live, and to look through them for
// every few thousand requests takes a sixth of what small ones cost. Where memory gets
// short, at half of the machine's, it is collected as often as it must be. What GOGC and
// GOMEMLIMIT say goes before.
//
// Until ctx ends it runs on as few processors as it needs, where Deps.Follow says so.
func (d *Deps) Settle(ctx context.Context) {
	if d.Loosen != nil {
		d.Loosen()
	}
	percent, most := garbage(os.Getenv, physical())
	if percent != 0 {
		debug.SetGCPercent(percent)
	}
	if most != 0 {
		debug.SetMemoryLimit(most)
	}
	if d.Follow != nil {
		d.Follow(ctx)
	}
}

// Bound has garbage collected as often as it takes, where requests may hold so many bytes,
// for the process to hold no more than these and what it lives on besides.
func (d *Deps) Bound(requests int64) {
	const besides = 128 << 20
	if most := requests + besides; requests > 0 && os.Getenv("GOMEMLIMIT") == "" && most < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(most)
	}
}

// garbage is by how many percent of what lives the heap may grow before garbage is
// collected, and how many bytes it may hold in all; 0 leaves either as it is. total is
// the machine's memory, 0 where it cannot be told: then nothing would bound the heap.
func garbage(getenv func(string) string, total int64) (percent int, most int64) {
	const growth, share = 300, 2
	if total == 0 {
		return 0, 0
	}
	if getenv("GOGC") == "" {
		percent = growth
	}
	if getenv("GOMEMLIMIT") == "" {
		most = total / share
	}
	return percent, most
}
