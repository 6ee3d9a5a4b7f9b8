# Human poses: a large network finds the parts of bodies, a small one tells the pose.

pipeline "pose" {
  slo      = "200ms"
  rate     = 600 # requests per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 96, 96] # red, green and blue planes, 0 to 1
  }

  module "parts" {
    model   = "models/pose-parts.onnx"
    profile = "profiles/pose-parts.csv"
    inputs  = { image = input.picture }
    batches = [1, 2, 4, 8]
  }

  module "recognise" {
    model   = "models/pose-recognise.onnx"
    profile = "profiles/pose-recognise.csv"
    inputs  = { parts = module.parts.heatmaps }
    batches = [1, 2, 4, 8]
  }

  output "pose" { value = module.recognise.label }
}
