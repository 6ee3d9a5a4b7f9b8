# Facial keypoints: a detector finds faces, and a network places the keypoints of each.

pipeline "face" {
  slo      = "200ms"
  rate     = 700 # requests per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 96, 96] # red, green and blue planes, 0 to 1
  }

  module "detect" {
    model   = "models/face-detect.onnx"
    profile = "profiles/face-detect.csv"
    inputs  = { image = input.picture }
    batches = [1, 2, 4, 8]
  }

  module "boxes" {
    function   = "threshold_boxes"
    profile    = "profiles/face-boxes.csv"
    inputs     = { map = module.detect.faces }
    batches    = [1, 2, 4, 8]
    parameters = { stride = 8, threshold = 0.4, iou = 0.45, max = 4 }
  }

  module "crops" {
    function = "crop"
    profile  = "profiles/face-crops.csv"
    inputs = {
      image = input.picture
      boxes = module.boxes.boxes
    }
    batches    = [1, 2, 4, 8]
    parameters = { width = 24, height = 24, margin = 0.05 }
  }

  # x and y of five points, as shares of the crop.
  module "keypoints" {
    model   = "models/face-keypoints.onnx"
    profile = "profiles/face-keypoints.csv"
    inputs  = { face = module.crops.crops }
    fanout  = { mean = 1.8, max = 4 }
    batches = [1, 2, 4, 8]
  }

  output "boxes" { value = module.boxes.boxes }
  output "keypoints" { value = module.keypoints.points }
}
