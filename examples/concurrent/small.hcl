variable "rate" {
  default = 200
}

variable "slo" {
  default = "400ms"
}

hardware "cpu" {
  price = 1
}

pipeline "small" {
  slo      = var.slo
  rate     = var.rate
  arrivals = "poisson"

  input "x" {
    datatype = "FP32"
    shape    = [4]
  }

  module "network" {
    command = ["python3", "./network.py", "waits"] # or "multiplies"
    inputs  = { x = input.x }
    batches = [1, 2, 4]
  }

  output "y" { value = module.network.y }
  output "program" { value = module.network.program }

  plan { concurrency = true } # measured, and served if that is cheaper, with 1, 2 and 4 batches at a time
}
