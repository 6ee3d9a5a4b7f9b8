package secure

import (
	"net/url"
	"slices"
)

// Leads is the HOST or HOST:PORT that an address leads to, and whether that is among what
// an operator allows, of either form each. A list without entries allows all.
func Leads(address string, allowed []string) (to string, ok bool) {
	at, err := url.Parse(address)
	if err != nil {
		return address, len(allowed) == 0
	}
	return at.Host, len(allowed) == 0 || at.Host != "" && (slices.Contains(allowed, at.Host) || slices.Contains(allowed, at.Hostname()))
}
