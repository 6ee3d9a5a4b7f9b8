// Package bayes is Bayesian optimisation over a list of candidates: after some of them
// have been tried, Next says which to try next. What is not known is a Gaussian process
// with a squared-exponential kernel; the candidate with the greatest expected
// improvement is next (Mockus 1974; Jones, Schonlau, Welch 1998). The search of Ribbon,
// with which Kairos is compared, and that of MBS, with which HarmonyBatch is.
package bayes
