# Two pipelines that share the devices of a cluster, on machines that are not here:
# every module is emulated, which takes as long as its profile says and answers with
# made-up tensors.

variable "rate" {
  type        = number
  default     = 60
  description = "requests per second of each pipeline"
}

variable "dispatch" {
  type    = string
  default = "adaptive"
}

hardware "v100" {
  price  = 3.06
  memory = "16GiB"
  count  = 8
}

cluster "vision" {
  hardware  = "v100"
  devices   = { min = 2, max = 8 }
  dispatch  = var.dispatch
  pipelines = ["traffic", "faces"]
}

pipeline "traffic" {
  slo        = "400ms"
  rate       = var.rate
  arrivals   = "poisson"
  attainment = 0.99

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

  output "kinds" { value = module.vehicle.label }
}

pipeline "faces" {
  slo        = "250ms"
  rate       = var.rate
  arrivals   = "poisson"
  attainment = 0.99

  input "face" {
    datatype = "FP32"
    shape    = [3, 24, 24]
  }

  module "identify" {
    engine  = "emulated"
    profile = "profiles/classify.csv"
    inputs  = { face = input.face }
  }

  output "name" { value = module.identify.label }
}
