# Traffic monitoring: a detector, then a network for vehicles and one for pedestrians.

pipeline "traffic" {
  slo      = "100ms"
  rate     = 2000 # requests per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 96, 96]
  }

  module "detect" {
    model   = "models/traffic-detect.onnx"
    profile = "profiles/traffic-detect.csv"
    inputs  = { image = input.picture }
    batches = [1, 2, 4, 8]
  }

  module "vehicle" {
    model   = "models/traffic-vehicle.onnx"
    profile = "profiles/traffic-vehicle.csv"
    inputs  = { crop = module.detect.regions }
    batches = [1, 2, 4, 8]
  }

  module "pedestrian" {
    model   = "models/traffic-pedestrian.onnx"
    profile = "profiles/traffic-pedestrian.csv"
    inputs  = { crop = module.detect.regions }
    batches = [1, 2, 4, 8]
  }

  output "vehicles" { value = module.vehicle.label }
  output "pedestrians" { value = module.pedestrian.label }
}
