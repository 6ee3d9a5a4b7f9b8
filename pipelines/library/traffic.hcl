# Traffic monitoring: a detector finds what moves in a picture of a street, two
# classifiers look at the vehicles and at the pedestrians.
#
# The profiles are synthetic.

pipeline "traffic" {
  slo      = "180ms"
  rate     = 400 # pictures per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 300, 300]
  }

  module "detect" {
    profile = "profiles/traffic-detect.csv"
    inputs  = { image = input.picture }
  }

  module "vehicle" {
    profile = "profiles/traffic-vehicle.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = 1.8 # vehicles in a picture, on average
  }

  module "pedestrian" {
    profile = "profiles/traffic-pedestrian.csv"
    inputs  = { crop = module.detect.pedestrians }
    fanout  = 1.2
  }

  output "vehicles" { value = module.vehicle.label }
  output "pedestrians" { value = module.pedestrian.label }
}
