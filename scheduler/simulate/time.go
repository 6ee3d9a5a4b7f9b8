package simulate

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Time is an instant of the virtual clock: the duration since its start.
type Time = time.Duration

// never is the instant that does not come.
const never = dispatch.Never

// ErrStopped ends a run that Options.Stop has ended.
const ErrStopped = stopped("simulate: stopped before the end")

type stopped string

func (s stopped) Error() string { return string(s) }
