# Activities: persons are found, then told apart and followed side by side; both make the activity.

pipeline "actdet" {
  slo      = "200ms"
  rate     = 700 # requests per second
  arrivals = "even"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 128, 128]
  }

  module "detect" {
    model   = "models/actdet-detect.onnx"
    profile = "profiles/actdet-detect.csv"
    inputs  = { image = input.frame }
    batches = [1, 2, 4, 8]
  }

  module "identity" {
    model   = "models/actdet-identity.onnx"
    profile = "profiles/actdet-identity.csv"
    inputs  = { persons = module.detect.persons }
    batches = [1, 2, 4, 8]
  }

  module "motion" {
    model   = "models/actdet-motion.onnx"
    profile = "profiles/actdet-motion.csv"
    inputs  = { persons = module.detect.persons }
    batches = [1, 2, 4, 8]
  }

  module "action" {
    model   = "models/actdet-action.onnx"
    profile = "profiles/actdet-action.csv"
    inputs  = { identity = module.identity.features, motion = module.motion.features }
    batches = [1, 2, 4, 8]
  }

  output "activity" { value = module.action.label }
}
