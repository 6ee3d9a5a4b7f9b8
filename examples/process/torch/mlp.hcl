variable "python" {
  type        = string
  default     = "python3"
  description = "an interpreter that has PyTorch"
}

hardware "cpu" {
  price = 0.0425
}

pipeline "mlp" {
  slo  = "300ms"
  rate = 50

  input "x" {
    datatype = "FP32"
    shape    = [1024]
  }

  module "net" {
    engine  = "process"
    command = [var.python, "../torch_mlp.py"]
    inputs  = { x = input.x }
    batches = [1, 4, 16, 32]
  }

  output "y" {
    value = module.net.y
  }
}
