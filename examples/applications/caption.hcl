# Captions for video: features of a clip, a network that reads them, and one that writes four words.

pipeline "caption" {
  slo      = "100ms"
  rate     = 8000 # requests per second
  arrivals = "even"

  input "clip" {
    datatype = "FP32"
    shape    = [3, 96, 96] # three grey frames, one after the other, 0 to 1
  }

  module "features" {
    model   = "models/caption-features.onnx"
    profile = "profiles/caption-features.csv"
    inputs  = { frames = input.clip }
    batches = [1, 2, 4, 8]
  }

  module "encode" {
    model   = "models/caption-encode.onnx"
    profile = "profiles/caption-encode.csv"
    inputs  = { features = module.features.features }
    batches = [1, 2, 4, 8]
  }

  module "decode" {
    model   = "models/caption-decode.onnx"
    profile = "profiles/caption-decode.csv"
    inputs  = { state = module.encode.state }
    batches = [1, 2, 4, 8]
  }

  output "caption" { value = module.decode.words }
}
