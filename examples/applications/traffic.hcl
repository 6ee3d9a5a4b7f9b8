# Traffic monitoring: a detector with a map for vehicles and one for pedestrians; each that it
# finds is cut out and looked at.

pipeline "traffic" {
  slo      = "100ms"
  rate     = 2000 # requests per second
  arrivals = "even"

  input "picture" {
    datatype = "FP32"
    shape    = [3, 96, 96] # red, green and blue planes, 0 to 1
  }

  module "detect" {
    model   = "models/traffic-detect.onnx"
    profile = "profiles/traffic-detect.csv"
    inputs  = { image = input.picture }
    batches = [1, 2, 4, 8]
  }

  module "vehicle_boxes" {
    function   = "threshold_boxes"
    profile    = "profiles/traffic-vehicle_boxes.csv"
    inputs     = { map = module.detect.vehicles }
    batches    = [1, 2, 4, 8]
    parameters = { stride = 8, threshold = 0.4, iou = 0.45, max = 4 }
  }

  module "vehicle_crops" {
    function = "crop"
    profile  = "profiles/traffic-vehicle_crops.csv"
    inputs = {
      image = input.picture
      boxes = module.vehicle_boxes.boxes
    }
    batches    = [1, 2, 4, 8]
    parameters = { width = 24, height = 24, margin = 0.05 }
  }

  # The network of examples/traffic: car, truck, bus, motorcycle.
  module "vehicle" {
    model   = "../traffic/models/vehicle.onnx"
    profile = "profiles/traffic-vehicle.csv"
    inputs  = { crop = module.vehicle_crops.crops }
    fanout  = { mean = 1.8, max = 4 }
    batches = [1, 2, 4, 8]
  }

  module "pedestrian_boxes" {
    function   = "threshold_boxes"
    profile    = "profiles/traffic-pedestrian_boxes.csv"
    inputs     = { map = module.detect.pedestrians }
    batches    = [1, 2, 4, 8]
    parameters = { stride = 8, threshold = 0.5, iou = 0.45, max = 4 }
  }

  module "pedestrian_crops" {
    function = "crop"
    profile  = "profiles/traffic-pedestrian_crops.csv"
    inputs = {
      image = input.picture
      boxes = module.pedestrian_boxes.boxes
    }
    batches    = [1, 2, 4, 8]
    parameters = { width = 24, height = 24, margin = 0.05 }
  }

  # Walker, with an umbrella, with a pushchair.
  module "pedestrian" {
    model   = "models/traffic-pedestrian.onnx"
    profile = "profiles/traffic-pedestrian.csv"
    inputs  = { crop = module.pedestrian_crops.crops }
    fanout  = { mean = 1.5, max = 4 }
    batches = [1, 2, 4, 8]
  }

  output "vehicle_boxes" { value = module.vehicle_boxes.boxes }
  output "vehicles" { value = module.vehicle.scores }
  output "pedestrian_boxes" { value = module.pedestrian_boxes.boxes }
  output "pedestrians" { value = module.pedestrian.label }
}
