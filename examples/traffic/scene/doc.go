// Package scene draws road scenes with vehicles, and says what is on them.
//
// A scene is 96 by 96 pixels: a road with lane marks between verges with
// clutter, up to four vehicles of four kinds and six colours, seen from the
// side in either direction, that may hide each other in part. Size, proportions
// and hue vary from vehicle to vehicle; brightness, colour of the light, its
// gradient, shadows, blur and noise from scene to scene. The same seed draws
// the same scene.
//
// Pictures are drawn at twice the size and averaged down, so that edges are
// soft as a camera's are.
package scene
