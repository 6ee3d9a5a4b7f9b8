// Package survey calls the functions of a provider in several sizes and batches, and
// times what comes back: what a model's coefficients are fitted from
// (functions.Fit), and how long the way to the provider and its cold starts take
// besides.
//
// Every function is called once to start an instance, which is not counted among its
// times, and then a number of times in turn. A batch that a function refuses, because
// it does not fit its memory for one, is noted, and larger ones are not tried on it. A
// provider that is managed has the functions created before they are called, beside
// what it has, and is left with what it had.
package survey
