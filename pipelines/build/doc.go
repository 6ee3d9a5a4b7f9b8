// Package build declares pipelines, pools and functions in Go. What comes out is
// the same value that package hcl reads from HCL.
package build
