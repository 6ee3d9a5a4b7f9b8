# Facial keypoints: a detector finds faces, a second network places the
# keypoints of each.
#
# The profiles are synthetic.

pipeline "face" {
  slo      = "120ms"
  rate     = 300 # pictures per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 256, 256]
  }

  module "detect" {
    profile = "profiles/face-detect.csv"
    inputs  = { image = input.picture }
  }

  module "keypoints" {
    profile = "profiles/face-keypoints.csv"
    inputs  = { face = module.detect.faces }
    fanout  = 2 # faces in a picture
  }

  output "keypoints" { value = module.keypoints.points }
}
