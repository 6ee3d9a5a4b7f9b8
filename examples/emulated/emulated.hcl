# The traffic pipeline on machines that are not here: every module is emulated,
# which takes as long as its profile says and answers with made-up tensors.

hardware "v100" {
  price  = 3.06
  memory = "16GiB"
  count  = 8
}

hardware "t4" {
  price  = 0.526
  memory = "16GiB"
  count  = 16
}

variable "rate" {
  type    = number
  default = 40
}

pipeline "emulated" {
  slo      = "400ms"
  rate     = var.rate
  arrivals = "even"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96]
  }

  module "detect" {
    engine  = "emulated"
    profile = "profiles/detect.csv"
    inputs  = { image = input.frame }
  }

  module "vehicle" {
    engine  = "emulated"
    profile = "profiles/classify.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = 1.8
  }

  module "colour" {
    engine  = "emulated"
    profile = "profiles/classify.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = 1.8
  }

  output "kinds" { value = module.vehicle.label }
  output "colours" { value = module.colour.label }
}
