hardware "cpu" {
  price = 0.0425
}

pipeline "flowers" {
  slo  = "500ms"
  rate = 20

  input "features" {
    datatype = "FP32"
    shape    = [4]
  }

  module "classify" {
    engine  = "process"
    command = ["python3", "./classify.py"]
    inputs  = { features = input.features }
    batches = [1, 2, 4, 8]
  }

  output "label" {
    value = module.classify.label
  }

  output "scores" {
    value = module.classify.scores
  }
}
