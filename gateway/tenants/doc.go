// Package tenants divides what services take in among the tokens that callers have, by
// admission.Shares, and holds each token to the rate that it may send. Callers without a
// token of their own are one tenant together, of weight 1. Until a named token has come
// nothing is counted and no lock is taken.
//
//	if err := all.Allow(tenant, time.Now()); err != nil ...
//	paid, err := service.TakeIn(tenant, n, &own)     // own admission: what there is room for
//	service.Enter(tenant, &request.Share, paid)
//	all.Begun(&request.Share)                        // when an engine has it
//	service.Leave(tenant, &request.Share, lost, now) // in the end
package tenants
