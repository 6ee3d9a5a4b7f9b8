// Package fleet has the workflows that know who takes part: the fleet, which holds
// hosts with their devices, gateways, dispatchers, and what services have reserved;
// and one workflow for every host and member, whose held activity heartbeats from
// there, so that the fleet learns when it is gone.
//
//	worker, gateway ── join, enter ──> Fleet ── starts ──> Host, Member ── hold ──> there
//	service ── reserve, watch ──────>    │  <── lost ──────────┘
//	service <── Change ──────────────────┘
package fleet
