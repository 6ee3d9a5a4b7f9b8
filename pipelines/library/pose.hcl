# Human poses: a large network finds the parts of bodies in a picture, a small
# one tells the pose from them.
#
# The profiles are synthetic.

pipeline "pose" {
  slo      = "250ms"
  rate     = 150 # pictures per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 368, 368]
  }

  module "parts" {
    profile = "profiles/pose-parts.csv"
    inputs  = { image = input.picture }
  }

  module "recognise" {
    profile = "profiles/pose-recognise.csv"
    inputs  = { parts = module.parts.heatmaps }
  }

  output "pose" { value = module.recognise.label }
}
