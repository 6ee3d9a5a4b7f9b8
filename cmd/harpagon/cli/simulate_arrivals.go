package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// loads are the pipelines with how their requests come.
func (f *simulateFlags) loads(d *Deps, doc *pipelines.Document) ([]simulate.Load, error) {
	given := arrivals.Process{}
	if f.arrivals != "" {
		var err error
		if given, err = readArrivals(d, f.arrivals); err != nil {
			return nil, err
		}
	}
	total := 0.0
	for _, p := range doc.Pipelines {
		total += p.Rate
	}
	var loads []simulate.Load
	for _, p := range doc.Pipelines {
		l := simulate.Load{Pipeline: p, Rate: p.Rate, Arrivals: given}
		recorded, span := given.Recorded()
		if f.arrivals == "" {
			var err error
			if l.Arrivals, err = arrivals.Declared(&p); err != nil {
				return nil, err
			}
			_, span = l.Arrivals.Recorded()
		} else if recorded > 0 {
			l.Rate = 0 // as it was
		}
		if f.hasRate {
			l.Rate = f.rate * Share(p.Rate, total, len(doc.Pipelines))
			if f.rate == 0 {
				l.Arrivals = arrivals.Process{} // no request comes, whatever was recorded
			}
		}
		if span > 0 && !f.hasLength {
			f.options.Duration = max(span, time.Millisecond)
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// parsePool reads hardware=N.
func parsePool(list []string) ([]simulate.Devices, error) {
	var pool []simulate.Devices
	for _, text := range list {
		name, count, ok := strings.Cut(text, "=")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || name == "" || n < 1 {
			return nil, fmt.Errorf("--pool %s: write HARDWARE=N with at least one device, such as gpu=8", text)
		}
		if n > simulate.MaxDevices {
			return nil, fmt.Errorf("--pool %s: memory is kept for %d devices; simulate a part of them at a part of the rate", text, simulate.MaxDevices)
		}
		pool = append(pool, simulate.Devices{Hardware: name, Count: n})
	}
	return pool, nil
}

// parseOutage reads DEVICE@FROM-TO.
func parseOutage(text string) (simulate.Outage, error) {
	var o simulate.Outage
	device, span, ok := strings.Cut(text, "@")
	from, to, ends := strings.Cut(span, "-")
	var err error
	if o.Device, err = strconv.Atoi(device); err == nil {
		o.From, err = time.ParseDuration(from)
	}
	if ends && err == nil {
		o.To, err = time.ParseDuration(to)
	}
	if !ok || err != nil {
		return o, fmt.Errorf("--lose %s: write DEVICE@FROM-TO, such as 0@10s-20s", text)
	}
	return o, nil
}
