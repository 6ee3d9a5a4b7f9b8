# Two networks of PyTorch on GPUs of one kind: a picture and the text beside it.
# The hardware is named as the driver names the GPU, in lower case and without its maker:
# "NVIDIA H200" is h200, "Tesla V100-SXM2-16GB" v100-sxm2-16gb.

variable "python" {
  type        = string
  default     = "python3"
  description = "an interpreter that has torch, torchvision and transformers"
}

variable "rate" {
  type        = number
  default     = 1000
  description = "requests per second"
}

hardware "h200" {
  price = 3
}

pipeline "captions" {
  slo      = "100ms"
  rate     = var.rate
  arrivals = "poisson"

  input "image" {
    datatype = "UINT8"
    shape    = [3, 224, 224]
  }

  input "ids" {
    datatype = "INT64"
    shape    = [128]
  }

  module "picture" {
    engine   = "process"
    command  = [var.python, "./picture.py"]
    hardware = ["h200"]
    inputs   = { image = input.image }
    batches  = [1, 2, 4, 8, 16, 32, 64]
  }

  module "text" {
    engine   = "process"
    command  = [var.python, "./text.py"]
    hardware = ["h200"]
    inputs   = { ids = input.ids }
    batches  = [1, 2, 4, 8, 16, 32, 64]
  }

  output "probabilities" { value = module.picture.probabilities }
  output "vector" { value = module.text.vector }
}
