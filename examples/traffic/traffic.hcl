# Reads road scenes: finds vehicles, and names the kind and colour of each.
# Nothing is profiled on file: the modules are measured where they run.

variable "rate" {
  type        = number
  default     = 10
  description = "frames per second"
}

variable "slo" {
  type        = string
  default     = "400ms"
  description = "from a frame's arrival to its answer"
}

hardware "cpu" {
  price = 0.0425 # per core and hour, as a rented machine of two cores costs
}

pipeline "traffic" {
  slo      = var.slo
  rate     = var.rate
  arrivals = "poisson"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96] # red, green and blue planes, 0 to 1
  }

  # A grid of 12 by 12 cells: a score and a box for each.
  module "detect" {
    model   = "models/detect.onnx"
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
    model   = "models/vehicle.onnx"
    inputs  = { crop = module.crops.crops }
    fanout  = { mean = 2, max = 8 }
    batches = [1, 2, 4, 8]
  }

  module "colour" {
    model   = "models/colour.onnx"
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
