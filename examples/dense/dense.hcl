# A network of dense layers: reading its weights takes most of the time, so a
# large batch costs little more than a small one. go run ./examples/dense writes
# the model.

variable "rate" {
  type        = number
  default     = 600
  description = "requests per second"
}

variable "slo" {
  type    = string
  default = "300ms"
}

variable "batches" {
  type        = list(number)
  default     = [1, 2, 4, 8, 16, 32, 64]
  description = "batch sizes to choose from"
}

hardware "cpu" {
  price = 0.0425 # per core and hour, as a rented machine of two cores costs
  count = 1
}

pipeline "dense" {
  slo      = var.slo
  rate     = var.rate
  arrivals = "poisson"

  input "x" {
    datatype = "FP32"
    shape    = [1024]
  }

  module "dense" {
    model   = "dense.onnx"
    engine  = "onnxruntime"
    inputs  = { x = input.x }
    batches = var.batches
  }

  output "scores" { value = module.dense.scores }
}
