package cluster

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/cluster/division"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// How a number of devices is looked for.
const (
	sizeMisses    = 200     // that should be expected of each pipeline in a run
	sizeItems     = 800_000 // at modules, of all requests in a run, at most
	sizeLeast     = 2_000   // of each pipeline, at the least, where that allows it
	sizeSeed      = 1
	sizeStep      = 1.25 // from one number of devices that is too small to the next
	warmObjective = 20   // of the longest objective, before requests are counted
	rateTolerance = 0.02 // of the goodput
	giveUp        = 4    // times the misses that are allowed end a run
)

// sizer sizes the part of a cluster that one dispatcher has.
type sizer struct {
	members  []int // of the pipelines of the problem
	loads    []simulate.Load
	targets  []float64
	hardware string
	options  simulate.Options
	least    int // devices that are needed at least

	ok      bool
	devices int             // that suffice
	enough  int             // the least of them that is known
	result  simulate.Result // of the last run that attained
	cut     bool            // the search was ended: fewer may suffice, and more may be borne
}

func newSizer(p *Problem, dispatch string, members []int, divisions []division.Division, o Options) (*sizer, error) {
	s := &sizer{members: members, hardware: p.Hardware.Name, options: simulate.Options{Dispatch: dispatch, Seed: sizeSeed, Stop: o.Stop, Policies: o.Policies}}
	work, items, longest := 0.0, 0.0, time.Duration(0)
	length := 0.0 // seconds
	for _, i := range members {
		one := p.Pipelines[i]
		how, err := arrivals.Declared(&one)
		if err != nil {
			return nil, err
		}
		target := one.Target()
		if target == 0 && one.Attainment != pipelines.NoAttainment {
			target = simulate.DefaultAttainment // of even arrivals, for nothing is proven here
		}
		s.loads = append(s.loads, simulate.Load{Pipeline: one, Arrivals: how, Rate: one.Rate, Budgets: divisions[i].Budgets})
		s.targets = append(s.targets, target)
		if one.Rate == 0 {
			continue
		}
		work += target * divisions[i].Least
		for _, rate := range one.Rates() {
			items += rate
		}
		longest = max(longest, one.SLO)
		wanted := float64(sizeLeast)
		if target > 0 && target < 1 {
			wanted = max(wanted, sizeMisses/(1-target))
		}
		length = max(length, wanted/one.Rate)
	}
	s.least = max(1, int(math.Ceil(work*(1-rounding))))
	if items > 0 {
		length = min(length, sizeItems/items)
	}
	s.options.Duration = max(warmObjective*longest, time.Duration(length*float64(time.Second)))
	s.options.Warmup = warmObjective * longest
	return s, nil
}

// rounding is the noise of sums.
const rounding = 1e-9

// size finds the least number of devices, up to most, that attains. Attainment is
// taken to rise with the devices. Where the search is ended once a number suffices, that
// number stands.
func (s *sizer) size(most int) error {
	low, high := s.least-1, s.least
	for ; ; high = int(math.Ceil(float64(high)*sizeStep)) + 1 {
		high = min(high, most)
		ok, err := s.attains(high)
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if low = high; high >= most {
			return nil
		}
	}
	for high-low > 1 {
		middle := (low + high) / 2
		ok, err := s.attains(middle)
		if errors.Is(err, simulate.ErrStopped) {
			s.cut = true
			break
		}
		if err != nil {
			return err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	s.ok, s.devices, s.enough = true, high, high
	return nil
}

// attains reports whether so many devices attain the targets, with 95 % confidence.
func (s *sizer) attains(devices int) (bool, error) {
	if devices < 1 {
		return false, nil
	}
	r, err := s.run(devices, 1, 0)
	if err != nil {
		return false, err
	}
	for i, one := range r.Pipelines {
		if one.Interval.Low < s.targets[i] && one.Attainment < 1 {
			return false, nil
		}
	}
	s.result = r
	return true, nil
}

func (s *sizer) run(devices int, factor float64, misses int64) (simulate.Result, error) {
	loads := append([]simulate.Load(nil), s.loads...)
	for i := range loads {
		loads[i].Rate *= factor
	}
	o := s.options
	o.GiveUp = misses
	o.Duration = s.span(factor)
	r, err := simulate.OnCluster(loads, []simulate.Devices{{Hardware: s.hardware, Count: devices}}, o)
	if err != nil && !errors.Is(err, simulate.ErrStopped) {
		err = errors.New(strings.TrimPrefix(err.Error(), "simulate: "))
	}
	return r, err
}

// span is how long a run lasts in which all rates are multiplied: no more requests come
// than at the declared ones.
func (s *sizer) span(factor float64) time.Duration {
	if factor <= 1 {
		return s.options.Duration
	}
	return max(s.options.Warmup, time.Duration(float64(s.options.Duration)/factor))
}

// finish reports what the part attains with so many devices, and by which factor all
// its rates could grow. Where the search is ended and fewer devices have proven enough,
// their result counts, with a factor of 1.
func (s *sizer) finish(devices int, out *Plan) (factor float64, err error) {
	s.devices = devices
	known := func(err error) bool { return errors.Is(err, simulate.ErrStopped) && devices >= s.enough }
	if r, err := s.run(devices, 1, 0); err == nil {
		s.result = r
	} else if !known(err) {
		return 0, err
	}
	for k, i := range s.members {
		out.Pipelines[i].Attainment = s.result.Pipelines[k].Attainment
		out.Attainment = min(out.Attainment, out.Pipelines[i].Attainment)
	}
	if factor, err = s.maxRateFactor(devices); known(err) {
		s.cut, factor, err = true, 1, nil
	}
	return factor, err
}

// maxRateFactor is the factor by which all rates may be multiplied so that every pipeline
// still attains its target.
func (s *sizer) maxRateFactor(devices int) (float64, error) {
	total, strictest := 0.0, simulate.DefaultAttainment
	for i, l := range s.loads {
		total += l.Rate
		strictest = max(strictest, s.targets[i])
	}
	if total == 0 {
		return 0, nil
	}
	run := func(rate float64, _ uint64) (simulate.Result, error) {
		allowed := giveUp*(1-strictest)*rate*s.span(rate/total).Seconds() + 1000
		return s.run(devices, rate/total, int64(allowed))
	}
	found, err := simulate.FindGoodput(run, simulate.Search{Attainment: strictest, Tolerance: rateTolerance, Seed: sizeSeed, Start: total})
	return found.Rate / total, err
}

// part is what the plan states of it.
func (s *sizer) part(name string) SubCluster {
	p := SubCluster{Name: name, Devices: s.devices}
	for _, l := range s.loads {
		p.Pipelines = append(p.Pipelines, l.Pipeline.Name)
		p.Rate += l.Rate
	}
	return p
}

// tooFew reports what the devices that there are do not suffice for.
func (p *Problem) tooFew(s *sizer, devices int) string {
	text := fmt.Sprintf("the declared rates need more than the %d devices of %s that the cluster may have", p.most(), p.Hardware.Name)
	if devices < s.least {
		return text + fmt.Sprintf(": no dispatcher serves them with less than %d", s.least)
	}
	if factor, err := s.maxRateFactor(devices); err == nil {
		text += fmt.Sprintf("; these serve %s of the rates. Allow more devices, lower the rates, or allow more time", quantity.Percent(factor))
	}
	return text
}
