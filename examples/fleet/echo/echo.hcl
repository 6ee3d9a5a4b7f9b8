# One module that takes no time, small and large, to measure what a fleet itself takes.

hardware "cpu" {
  price = 0.04
}

pipeline "small" {
  slo      = "100ms"
  rate     = 400
  arrivals = "even"

  input "x" {
    datatype = "FP32"
    shape    = [16]
  }

  module "echo" {
    engine  = "emulated"
    profile = "profiles/cpu.csv"
    inputs  = { x = input.x }
  }

  output "y" {
    value = module.echo.y
  }
}

pipeline "large" {
  slo  = "1s"
  rate = 400

  input "x" {
    datatype = "FP32"
    shape    = [262144]
  }

  module "echo" {
    engine  = "emulated"
    profile = "profiles/cpu.csv"
    inputs  = { x = input.x }
  }

  output "y" {
    value = module.echo.y
  }
}
