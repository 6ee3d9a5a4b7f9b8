// Package ocr is the example that reads pages of text with published networks:
// a detector finds the lines, a classifier tells which are upside down, and a
// recogniser reads them. The pipeline is declared in ocr.hcl, the pages come
// from package page, and the networks from npm; see the README.
package ocr
