// Package numbers gives the stations of a gateway the numbers by which it calls them to a
// dispatcher elsewhere.
package numbers
