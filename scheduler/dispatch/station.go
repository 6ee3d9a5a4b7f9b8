package dispatch

// Station drives the policy of a module, the same in a dispatcher and in a simulator: it reports
// events, has the driver carry out what the policy decides, and reports the answers.
type Station struct {
	Policy Policy
	Driver Driver
	Record func(now Time, ev Event, actions []Action) // called with every step; nil where nothing is recorded

	actions []Action
}

// Driver carries out what a policy decides. Arguments are valid during the call only.
type Driver interface {
	Start(now Time, a *Action)
	Drop(now Time, a *Action)
	SetTimer(now Time, a *Action)
	// Arbitrate passes Ask, Need or Release on to the device of an executor, and returns the
	// answer; the zero Event where there is none (tc.Arbiter.Decide).
	Arbitrate(now Time, a *Action) Event
}

// Step reports an event to the policy and carries out its actions, and answers to them,
// until none are left.
func (s *Station) Step(now Time, ev *Event) {
	var answer Event
	for ev.Kind != 0 {
		s.actions = s.Policy.Step(now, *ev, s.actions[:0])
		if s.Record != nil {
			s.Record(now, *ev, s.actions)
		}
		answer = Event{}
		for i := range s.actions {
			switch a := &s.actions[i]; a.Act {
			case Start:
				s.Driver.Start(now, a)
			case SetTimer:
				s.Driver.SetTimer(now, a)
			case Drop:
				s.Driver.Drop(now, a)
			default:
				answer = s.Driver.Arbitrate(now, a)
			}
		}
		ev = &answer
	}
}
