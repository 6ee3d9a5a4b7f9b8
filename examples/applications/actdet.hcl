# Activities: persons are found and cut out, then told apart and followed side by side; both make
# the activity.

pipeline "actdet" {
  slo      = "200ms"
  rate     = 700 # requests per second
  arrivals = "even"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96] # three grey frames, one after the other, 0 to 1
  }

  module "detect" {
    model   = "models/actdet-detect.onnx"
    profile = "profiles/actdet-detect.csv"
    inputs  = { image = input.frame }
    batches = [1, 2, 4, 8]
  }

  module "boxes" {
    function   = "threshold_boxes"
    profile    = "profiles/actdet-boxes.csv"
    inputs     = { map = module.detect.persons }
    batches    = [1, 2, 4, 8]
    parameters = { stride = 8, threshold = 0.4, iou = 0.45, max = 4 }
  }

  module "crops" {
    function = "crop"
    profile  = "profiles/actdet-crops.csv"
    inputs = {
      image = input.frame
      boxes = module.boxes.boxes
    }
    batches    = [1, 2, 4, 8]
    parameters = { width = 24, height = 24, margin = 0.05 }
  }

  # One item for each person: what follows sees each alone.
  module "person" {
    function = "identity"
    profile  = "profiles/actdet-person.csv"
    inputs   = { input = module.crops.crops }
    fanout   = { mean = 2, max = 4 }
    batches  = [1, 2, 4, 8]
  }

  module "identity" {
    model   = "models/actdet-identity.onnx"
    profile = "profiles/actdet-identity.csv"
    inputs  = { persons = module.person.output }
    batches = [1, 2, 4, 8]
  }

  module "motion" {
    model   = "models/actdet-motion.onnx"
    profile = "profiles/actdet-motion.csv"
    inputs  = { persons = module.person.output }
    batches = [1, 2, 4, 8]
  }

  module "action" {
    model   = "models/actdet-action.onnx"
    profile = "profiles/actdet-action.csv"
    inputs  = { identity = module.identity.features, motion = module.motion.features }
    batches = [1, 2, 4, 8]
  }

  output "boxes" { value = module.boxes.boxes }
  output "activity" { value = module.action.label }
}
