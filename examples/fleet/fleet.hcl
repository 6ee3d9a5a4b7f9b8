# Two modules, emulated on cores, so that what is tried here is the fleet.

hardware "cpu" {
  price = 0.04
}

pipeline "fleet" {
  slo      = "300ms"
  rate     = 60
  arrivals = "even"

  input "frame" {
    datatype = "FP32"
    shape    = [16]
  }

  module "detect" {
    engine  = "emulated"
    profile = "profiles/cpu.csv"
    inputs  = { image = input.frame }
  }

  module "label" {
    engine  = "emulated"
    profile = "profiles/cpu.csv"
    inputs  = { image = module.detect.boxes }
  }

  output "label" {
    value = module.label.label
  }
}
