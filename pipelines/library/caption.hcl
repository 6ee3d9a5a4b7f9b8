# Captions for video: features of the frames of a clip, a sequence model that
# reads them, and one that writes a sentence.
#
# The profiles are synthetic.

pipeline "caption" {
  slo      = "300ms"
  rate     = 350 # clips per second
  arrivals = "even"

  input "clip" {
    datatype = "FP32"
    shape    = [3, 224, 224]
  }

  module "features" {
    profile = "profiles/caption-features.csv"
    inputs  = { frames = input.clip }
  }

  module "encode" {
    profile = "profiles/caption-encode.csv"
    inputs  = { features = module.features.features }
  }

  module "decode" {
    profile = "profiles/caption-decode.csv"
    inputs  = { state = module.encode.state }
  }

  output "caption" { value = module.decode.words }
}
