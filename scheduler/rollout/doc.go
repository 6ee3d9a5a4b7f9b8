// Package rollout decides about a change that a share of requests tries first: a canary.
//
// While a canary is held, the old generation answers most requests and the new one its
// share, on executors and in queues of its own, so that it takes nothing from the others.
// Every gateway draws by Draw which of the two a request goes to, and counts outcomes
// (Seen). Decide returns from the sum whether to hold on, to promote the new generation to
// all requests, or to roll it back:
//
//   - at once, when it costs more per request than allowed, or when what it attains is
//     below what is allowed and chance does not explain it (a score test at Surely
//     standard deviations, which many looks in a row do not wear out);
//   - at the end of the hold, by the shares themselves. With fewer requests than Enough
//     it waits for more, up to Patience times the hold.
//
// A shadow is sent copies, and its answers are discarded: what it attains counts in the
// same way, and answers that differ from the old generation's are counted and reported.
package rollout
