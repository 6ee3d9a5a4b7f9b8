# Eight cameras, on whose frames something has found boxes: a tracker of one's own, in
# Python, gives them identities that stay from frame to frame.
#
#   harpagon plan examples/tracks
#   harpagon up examples/tracks
#   harpagon feed tracks

hardware "cpu" {
  price = 0.0425
}

pipeline "tracks" {
  slo = "400ms"

  stream {
    rate   = 5
    count  = 8
    jitter = "50ms"
  }

  input "boxes" {
    datatype = "FP32"
    shape    = [8, 4]
  }

  module "track" {
    command = ["python3", "./track.py"]
    state   = true
    profile = "profiles/track.csv"
    inputs  = { boxes = input.boxes }
  }

  output "ids" {
    value = module.track.ids
  }
}
