package main

import (
	"fmt"
	"time"
)

// second is for how long after a fault has begun requests may suffer from it.
const second = time.Second

// aftermath tells requests that were sent within the second after a fault began from all
// others.
func aftermath(all []outcome, done []happened) (within, outside tally) {
	for _, o := range all {
		t := &outside
		for _, h := range done {
			if since := o.sent.Sub(h.at); since >= 0 && since < second {
				t = &within
			}
		}
		t.add(o)
	}
	return within, outside
}

// share of the requests that were answered in time.
func (t tally) share() string {
	return fmt.Sprintf("%.3f %% of %d in time", 100*float64(t.inTime)/float64(max(1, t.sent)), t.sent)
}
