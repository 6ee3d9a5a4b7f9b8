# Activities across cameras: persons are found, then told apart and followed in
# their motion side by side; what both say makes the activity.
#
# The profiles are synthetic.

pipeline "actdet" {
  slo      = "250ms"
  rate     = 220 # frames per second, all cameras together
  arrivals = "even"

  input "frame" {
    datatype = "FP32"
    shape    = [3, 300, 300]
  }

  module "detect" {
    profile = "profiles/actdet-detect.csv"
    inputs  = { image = input.frame }
  }

  module "identity" {
    profile = "profiles/actdet-identity.csv"
    inputs  = { persons = module.detect.persons }
  }

  module "motion" {
    profile = "profiles/actdet-motion.csv"
    inputs  = { persons = module.detect.persons }
  }

  module "action" {
    profile = "profiles/actdet-action.csv"
    inputs  = { identity = module.identity.features, motion = module.motion.features }
  }

  output "activity" { value = module.action.label }
}
