// Package steps is the engine for processing steps between networks:
// ordinary Go functions that are declared in a pipeline like any module.
//
//	module "boxes" {
//	  function   = "threshold_boxes"
//	  inputs     = { map = module.detect.map }
//	  parameters = { threshold = 0.4, stride = 8 }
//	}
//
// Builtin has the functions that image pipelines need; each is described at
// its name below. A program that embeds Harpagon adds its own:
//
//	registry := steps.Builtin()
//	err := registry.Register("plate_number", steps.Function{Prepare: ...})
//
// A Function is prepared once per executor with the parameters of the module,
// and then called once per request. It derives from its parameters what it consumes and
// produces, so that a pipeline is checked before anything runs. The engine "function" runs the
// calls in this process: a panic fails the batch with a typed error and nothing else.
//
// # Built-in functions
//
// Coordinates are pixels, with (0, 0) the outer corner of the first pixel, so
// that the centre of pixel i is at i + 0.5. Boxes are [x0, y0, x1, y1].
//
// threshold_boxes: a detection network's map to boxes, by threshold and
// non-maximum suppression. See ThresholdBoxes for the contract with the network.
//
// crop: cuts boxes out of an image and scales them to one size. See Crop.
//
// resize: scales an image. See Resize.
//
// decode_image: a JPEG or PNG file to pixels. See DecodeImage.
//
// normalize: a picture's pixels, shifted and scaled. See Normalize.
//
// argmax_label: the name of the highest score. See ArgmaxLabel.
//
// softmax, top_k: scores to probabilities, and the best of them. See Softmax and
// TopK.
//
// concat: several tensors, joined. See Concat.
//
// identity: gives what it gets. See Identity.
//
// For reading text, in this order:
//
// letterbox: a picture of any size on a canvas of one size. See Letterbox.
//
// text_boxes: a segmentation network's map to rectangles at any angle around
// lines of text. See TextBoxes.
//
// text_lines: cuts these out of the page, level and of one size. See TextLines.
//
// turn_quads: turns upside-down lines by the scores of a direction network. See TurnQuads.
//
// ctc_text: the scores of a recognition network to text. See CTCText.
package steps
