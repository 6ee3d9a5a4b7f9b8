// Package check finds what is wrong with a declaration: names that do not exist,
// shapes that do not fit, cycles, objectives that no hardware can meet. All of it
// is found in one pass, as data: a Problem says by a path such as
// "pipeline.traffic.module.detect.profile" what it is about, and package language
// turns that into a line and a column.
//
// All is for a declaration that was read from files; Document and Function are
// for what a program made.
package check
