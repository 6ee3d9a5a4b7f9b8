package pipelines

import "time"

// Hardware is a kind of device that can be paid for by the hour.
type Hardware struct {
	Name   string
	Price  float64 // money per hour of one whole device
	Memory int64   // bytes of one device; 0 when unknown
	Count  int     // how many exist; 0 when unlimited

	// Cores is how many processor cores one device of this kind is made of, where it
	// is an instance that a machine offers part of itself as; 0 for anything else.
	Cores int `json:",omitempty"`

	// Interruptions is how often one device is taken back by who rents it out, per
	// hour; 0 for never. Recovery is how long it then takes, on average, until another
	// serves in its place; 0 for DefaultRecovery.
	Interruptions float64       `json:",omitempty"`
	Recovery      time.Duration `json:",omitempty"`

	// Listed says where price and interruptions were read.
	Listed Listing `json:",omitzero"`
}

// Listing is the line of a price list that a kind of hardware is bought by.
type Listing struct {
	File   string // of the list; empty where the declaration states the price
	Name   string // of the line
	Market string // one of Markets; empty for the first
}

// The ways to rent a device: for as long as it is wanted, or for less money until
// somebody else pays more.
const (
	MarketOnDemand = "on-demand"
	MarketSpot     = "spot"
)

// Markets are what Listing.Market may be.
func Markets() []string { return []string{MarketOnDemand, MarketSpot} }

// DefaultRecovery is how long a device that was taken back is missed where nothing
// else is declared: noticing it, renting another, starting a worker there and
// loading the models.
const DefaultRecovery = 5 * time.Minute

// MaxInterruptions bounds how often a device is taken back: a minute is not worth
// renting.
const MaxInterruptions = 60

// Away is the share of time in which a device of this kind is missed, in the long
// run: it serves for a mean time of 1/Interruptions, and then another takes its
// place after Recovery. late is added to every recovery.
func (h Hardware) Away(late time.Duration) float64 {
	if h.Interruptions <= 0 {
		return 0
	}
	recovery := h.Recovery
	if recovery == 0 {
		recovery = DefaultRecovery
	}
	lost := h.Interruptions * (recovery + late).Hours()
	return lost / (1 + lost)
}
