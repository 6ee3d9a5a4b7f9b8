package roles

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/gateway"
)

// TestWhenAHostIsDoubted: as soon as the last executor of it is lost, and not again for some time.
func TestWhenAHostIsDoubted(t *testing.T) {
	cut := errors.New("the connection has broken")
	type event struct {
		after time.Duration
		host  string
		come  bool
		err   error
	}
	comes := func(after time.Duration, host string) event { return event{after, host, true, nil} }
	goes := func(after time.Duration, host string, err error) event { return event{after, host, false, err} }
	for name, c := range map[string]struct {
		events []event
		told   []string
	}{
		"killed":           {[]event{comes(0, "one"), comes(0, "one"), goes(time.Hour, "one", cut), goes(0, "one", cut)}, []string{"one"}},
		"drained":          {[]event{comes(0, "one"), goes(time.Hour, "one", nil)}, nil},
		"back at once":     {[]event{comes(0, "one"), goes(time.Hour, "one", cut), comes(time.Millisecond, "one")}, []string{"one"}},
		"back before lost": {[]event{comes(0, "one"), comes(time.Hour, "one"), goes(0, "one", cut)}, nil},
		"another is there": {[]event{comes(0, "one"), comes(0, "one"), goes(time.Hour, "one", cut)}, nil},
		"another host": {[]event{comes(0, "one"), comes(0, "two"), goes(time.Hour, "one", cut), goes(0, "two", cut)},
			[]string{"one", "two"}},
		"comes and goes": {[]event{comes(0, "one"), goes(time.Hour, "one", cut), comes(time.Second, "one"), goes(0, "one", cut), comes(time.Second, "one"), goes(0, "one", cut)},
			[]string{"one"}},
		"again later": {[]event{comes(0, "one"), goes(time.Hour, "one", cut), comes(time.Minute, "one"), goes(0, "one", cut)},
			[]string{"one", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				o := newSuspicions(func(host string) { told = append(told, host) }).observer()
				for _, e := range c.events {
					time.Sleep(e.after)
					info := gateway.ExecutorInfo{Host: e.host, Err: e.err}
					if e.come {
						o.Attached(info)
					} else {
						o.Detached(info)
					}
				}
				assert.ElementsMatch(t, c.told, told)
			})
		})
	}
}
