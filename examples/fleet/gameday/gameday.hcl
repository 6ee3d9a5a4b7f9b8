# Two modules, emulated on cores. Each needs more than one machine, so that it has two,
# on two hosts, of which one suffices for the 300 requests/s that are offered. A load of
# less than 0.6 of the rate would be planned for anew, on fewer machines.

variable "rate" {
  default     = 430
  description = "requests per second"
}

variable "slo" {
  default     = "300ms"
  description = "from a request to its answer"
}

hardware "cpu" {
  price = 0.04
}

pipeline "gameday" {
  slo      = var.slo
  rate     = var.rate
  dispatch = "adaptive"
  arrivals = "even"

  plan {
    cost_model = "whole"
  }

  input "frame" {
    datatype = "FP32"
    shape    = [16]
  }

  module "detect" {
    engine  = "emulated"
    profile = "cpu.csv"
    inputs  = { image = input.frame }
  }

  module "label" {
    engine  = "emulated"
    profile = "cpu.csv"
    inputs  = { image = module.detect.boxes }
  }

  output "label" {
    value = module.label.label
  }
}
