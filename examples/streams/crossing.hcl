# Forty cameras at a crossing: a network finds vehicles on each frame, another
# names each of at most four. Both are emulated: no network runs, for as long as
# the profiles say.
#
#   harpagon plan examples/streams
#   harpagon simulate examples/streams
#   harpagon up examples/streams --engine emulated
#   harpagon feed crossing

hardware "gpu" {
  price = 1
}

pipeline "crossing" {
  slo      = "300ms"
  arrivals = "even"

  stream {
    rate   = 10
    count  = 40
    jitter = "20ms"
  }

  input "frame" {
    datatype = "UINT8"
    shape    = [96, 96, 3]
  }

  module "detect" {
    profile = "profiles/detect.csv"
    inputs  = { image = input.frame }
  }

  module "classify" {
    profile = "profiles/classify.csv"
    inputs  = { crop = module.detect.boxes }
    fanout  = 4
  }

  output "labels" {
    value = module.classify.label
  }
}
