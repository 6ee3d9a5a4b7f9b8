// Package fleet has the workflows that know who takes part: the fleet, which holds
// hosts with their devices, gateways, dispatchers, and what services have reserved;
// and one workflow for every host and member, whose held activity heartbeats from
// there, so that the fleet learns when it is gone. Sooner than by missing heartbeats it
// learns of a host by gateways that have lost its executors: it asks the host.
//
//	worker, gateway ── join, enter ──> Fleet ── starts ──> Host, Member ── hold ──> there
//	gateway ── doubt ──────────────>    │  ── asks ──> worker
//	service ── reserve, watch ──────>    │  <── lost ──────────┘
//	service <── Change ──────────────────┘
package fleet
