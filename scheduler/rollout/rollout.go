package rollout

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

const (
	// Enough is how many requests of the new generation a verdict needs.
	Enough = 20

	// Patience bounds how long the hold grows while fewer came, in holds.
	Patience = 5

	// Surely is how many standard deviations below what is allowed are no chance: one in
	// 740 for one look, and a hold is looked at a dozen times.
	Surely = 3
)

// Tally counts the requests of a generation that ended, without those that were wrong in
// themselves or whose callers went away.
type Tally struct {
	Requests int64 `json:"requests"`
	InTime   int64 `json:"in_time"`
}

// Attainment is the share in time; 1 of nothing.
func (t Tally) Attainment() float64 {
	if t.Requests == 0 {
		return 1
	}
	return float64(t.InTime) / float64(t.Requests)
}

// Seen is what was seen of both generations since the canary began. It adds up over
// gateways.
type Seen struct {
	Generation int   `json:"generation"` // the new one
	Stable     Tally `json:"stable"`
	Canary     Tally `json:"canary"`
	Compared   int64 `json:"compared"`  // answers of both to the same request
	Different  int64 `json:"different"` // of these
}

// Add adds what another gateway saw of the same generation.
func (s Seen) Add(o Seen) Seen {
	s.Stable = Tally{Requests: s.Stable.Requests + o.Stable.Requests, InTime: s.Stable.InTime + o.Stable.InTime}
	s.Canary = Tally{Requests: s.Canary.Requests + o.Canary.Requests, InTime: s.Canary.InTime + o.Canary.InTime}
	s.Compared, s.Different = s.Compared+o.Compared, s.Different+o.Different
	return s
}

// Describe returns in one line how both fare.
func (s Seen) Describe() string {
	text := fmt.Sprintf("generation %d attains %s of %d requests, the one before %s of %d",
		s.Generation, percent(s.Canary), s.Canary.Requests, percent(s.Stable), s.Stable.Requests)
	if s.Compared > 0 {
		text += fmt.Sprintf("; %d of %d answers to the same requests differ", s.Different, s.Compared)
	}
	return text
}

func percent(t Tally) string { return quantity.Percent(t.Attainment()) }

// Cost is money per request of two plans at the rates that they were made for.
type Cost struct{ Stable, Canary float64 }

// Verdict is what becomes of a canary.
type Verdict string

// The verdicts.
const (
	Hold    Verdict = "hold"
	Promote Verdict = "promote"
	Revert  Verdict = "revert"
)

// Decision is a verdict and why. Of Hold, Until is when to look again at the latest,
// counted from the beginning.
type Decision struct {
	Verdict Verdict
	Reason  string
	Until   time.Duration
}

// Decide reports what becomes of a canary that was held for so long. A cost that is not
// known yet is zero.
func Decide(u pipelines.Update, held time.Duration, seen Seen, cost Cost) Decision {
	hold := cmp.Or(u.Hold, pipelines.DefaultHold)
	least := cmp.Or(u.Revert.Attainment, pipelines.DefaultRevert) * seen.Stable.Attainment()
	why := seen.Describe()
	switch {
	case u.Revert.Cost > 0 && cost.Canary > u.Revert.Cost*cost.Stable:
		return Decision{Verdict: Revert, Reason: fmt.Sprintf("a request costs %s, and %s before: more than %s times that, as much as its update block allows",
			quantity.Number(cost.Canary), quantity.Number(cost.Stable), quantity.Number(u.Revert.Cost))}
	case seen.Canary.Requests >= Enough && surelyBelow(seen.Canary, least):
		return Decision{Verdict: Revert, Reason: why + below(least)}
	case held < hold:
		return Decision{Verdict: Hold, Reason: why, Until: hold}
	case seen.Canary.Attainment() < least && seen.Canary.Requests >= Enough:
		return Decision{Verdict: Revert, Reason: why + below(least)}
	case seen.Canary.Requests < Enough && held < Patience*hold:
		return Decision{Verdict: Hold, Reason: why + ": too few to judge", Until: Patience * hold}
	case seen.Canary.Attainment() < least:
		return Decision{Verdict: Revert, Reason: why + below(least)}
	}
	return Decision{Verdict: Promote, Reason: why}
}

func below(least float64) string {
	return fmt.Sprintf(", below the %s that its update block requires", quantity.Percent(least))
}

// surelyBelow reports that a true share of least would hardly give so few in time: the score
// test of a binomial share, one-sided.
func surelyBelow(t Tally, least float64) bool {
	n := float64(t.Requests)
	if deviation := math.Sqrt(n * least * (1 - min(least, 1))); deviation > 0 {
		return (float64(t.InTime)-n*least)/deviation < -Surely
	}
	return float64(t.InTime) < n*least
}

// To states which generation a request goes to.
type To int

// The generations.
const (
	Stable To = iota // the old one
	Canary           // the new one answers
	Shadow           // the old one answers, and the new one is sent it, too
)

// Draw spreads requests evenly over both generations: the n-th request, from 1, of a
// canary with these shares. Of the first k, share times k go to each, give or take two.
// To take some of an even stream away leaves the rest no closer together than before, so
// what was proven for the whole stream holds for the rest.
func Draw(n int64, u pipelines.Update) To {
	both := u.Canary + u.Shadow
	switch {
	case passed(n, both) == passed(n-1, both):
		return Stable
	case passed(passed(n, both), u.Canary/both) > passed(passed(n, both)-1, u.Canary/both):
		return Canary
	}
	return Shadow
}

// passed is how many whole numbers share times n has passed.
func passed(n int64, share float64) int64 {
	const tolerance = 1e-9 // of shares such as 0.1, whose multiples are not exact
	return int64(math.Floor(float64(n)*share + tolerance))
}

// suffix marks the name under which the new generation of a service is deployed; no
// declared name has it.
const suffix = "@canary"

// Name is under which a service's new generation is deployed while it is tried.
func Name(service string) string { return service + suffix }

// Of is the service whose new generation is deployed under the name.
func Of(name string) (service string, ok bool) { return strings.CutSuffix(name, suffix) }

// Part is a pipeline as its new generation is deployed while it is tried: under a name of
// its own, for its share of the rate.
func Part(p pipelines.Pipeline) pipelines.Pipeline {
	p.Rate *= p.Update.Canary + p.Update.Shadow
	p.Name, p.Update = Name(p.Name), pipelines.Update{}
	return p
}
