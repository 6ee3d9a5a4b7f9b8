// Package chart draws costs and times as pictures: a grid of panels with lines
// that carry their names at their ends, as SVG or PNG.
//
// A line says two things: how much, by its height, and whether it can be relied
// on, by being solid or dashed. Where a line has no value it stops; where no
// line has one, the panel is shaded.
//
// Package gonum.org/v1/plot does the drawing; what stands here is the choice of
// ranges, colours and places of names.
package chart
