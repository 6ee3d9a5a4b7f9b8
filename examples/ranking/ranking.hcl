# A wide and deep network ranks lists of different lengths. Two kinds of instances
# serve it, each a core of this machine: one that is always there, and one that is
# cheap. Nothing is known of how long queries take until harpagon up has measured it.

variable "budget" {
  type        = number
  description = "money per hour"
  default     = 0.15
}

variable "slo" {
  type        = string
  description = "within which a list is to be ranked"
  default     = "200ms"
}

hardware "on-demand" {
  price = 0.10
  cores = 1
  count = 1
}

hardware "spot" {
  price = 0.03
  cores = 1
  count = 1
}

pool "ranking" {
  model    = "ranking.onnx"
  sizes    = "sizes.csv"
  slo      = var.slo
  budget   = var.budget
  base     = "on-demand"
  hardware = ["on-demand", "spot"]
  arrivals = "poisson"

  input "wide" {
    datatype = "FP32"
    shape    = [48]
  }

  input "dense" {
    datatype = "FP32"
    shape    = [64]
  }

  output "click" {
    value = model.click
  }
}
