# Facial keypoints: a detector, then a network that places the keypoints.

pipeline "face" {
  slo      = "200ms"
  rate     = 700 # requests per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 128, 128]
  }

  module "detect" {
    model   = "models/face-detect.onnx"
    profile = "profiles/face-detect.csv"
    inputs  = { image = input.picture }
    batches = [1, 2, 4, 8]
  }

  module "keypoints" {
    model   = "models/face-keypoints.onnx"
    profile = "profiles/face-keypoints.csv"
    inputs  = { face = module.detect.faces }
    batches = [1, 2, 4, 8]
  }

  output "keypoints" { value = module.keypoints.points }
}
