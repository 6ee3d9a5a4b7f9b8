# A pipeline to start from: one network finds the objects in a picture, another
# names each of them.
#
#   harpagon validate .   finds every mistake in this folder
#   harpagon plan .       shows what the pipeline takes, and what that costs
#   harpagon up .         serves it; modules without models are emulated: their
#                         batches take as long as the profile lists

# Values that change from run to run: harpagon plan . --var rate=200, or the
# environment variable HARPAGON_VAR_rate.
variable "rate" {
  type        = number
  default     = 100
  description = "pictures per second"
}

# The devices that may run modules, at their price per hour. The planner chooses
# among them; add a count where there is a limit.
hardware "gpu-large" {
  price  = 3.06
  memory = "16GiB"
}

hardware "gpu-small" {
  price  = 0.53
  memory = "16GiB"
}

pipeline "objects" {
  slo  = "400ms"  # from a picture's arrival to its answer, for every picture
  rate = var.rate # pictures per second

  input "picture" {
    datatype = "FP32"
    shape    = [3, 224, 224] # of one picture; batches are made by Harpagon
  }

  # A module's edges are the references in its inputs. The profile tells how
  # long batches take on each kind of hardware. These profiles are synthetic.
  #
  # With a model, an ONNX file, real networks run:
  #   model = "models/detect.onnx"
  # Take the profile out then, and harpagon profile or up measures the model.
  module "detect" {
    profile = "profiles/detect.csv"
    inputs  = { image = input.picture }
  }

  # fanout splits the objects of a picture into requests of their own: 1.8 of
  # them for each picture, on average.
  module "classify" {
    profile = "profiles/classify.csv"
    inputs  = { crop = module.detect.objects }
    fanout  = 1.8
  }

  output "labels" { value = module.classify.label }
}
