// Package page draws pages of text whose words are known: several fonts, sizes,
// colours and angles, upside down too, and with noise, blur and stains where
// asked for. The same seed draws the same page.
package page
