package dispatcher

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. Completed and LateOutcome have answers.
const (
	Completed      Outcome = iota + 1 // answered within its deadline
	LateOutcome                       // answered after its deadline
	Dropped                           // given up because the deadline could no longer be met
	RefusedOutcome                    // refused on arrival
	Failed                            // an error of engine, executor or gateway
	Cancelled                         // the caller went away
	Invalid                           // wrong in itself, on arrival or for an engine: the caller's mistake
)

// String is the outcome in lower case.
func (o Outcome) String() string {
	return [...]string{"", "completed", "late", "dropped", "refused", "failed", "cancelled", "invalid"}[o]
}
