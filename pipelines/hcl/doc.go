// Package hcl reads and prints declarations in HCL.
//
// Load reads files and folders into a Config: the document, and where each of its
// values was written. Config.Validate finds what is wrong, at its place; HCL
// prints a document in its canonical form, which reads back as the same document;
// Format does that for a file as it stands, comments kept.
package hcl

// noAxis is how a declaration writes NoBatchAxis.
const noAxis = "none"
