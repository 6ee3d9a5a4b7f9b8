// Package published is what experiments, and the tests of the rooms that they
// drive, are made with: numbers that the papers and their artefacts print, and
// inputs that are drawn around them. It imports the declaration alone, so that
// the tests of every room can use it.
package published
