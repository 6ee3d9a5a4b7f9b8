# Four cameras at a road: a detector finds what moves there and its colour, and the tracker gives
# it an identity that stays from frame to frame. Both are programs in plain Python.
#
#   examples/tracks/road/draw.sh road.mp4
#   harpagon up examples/tracks/road
#   harpagon feed road --source road.mp4 --overlay pictures

hardware "cpu" {
  price = 0.0425
}

pipeline "road" {
  slo = "400ms"

  stream {
    rate   = 5
    count  = 4
    jitter = "50ms"
  }

  # What people see of frames: here, and on the console.
  overlay {
    frame   = "frame"
    boxes   = "boxes"
    corners = "xywh"
    unit    = "fractions"
    labels  = ["colours", "ids"]
    console = true
  }

  input "frame" {
    datatype = "UINT8"
    shape    = [72, 128, 3]
  }

  module "detect" {
    command = ["python3", "./detect.py"]
    profile = "profiles/detect.csv"
    inputs  = { image = input.frame }
  }

  module "track" {
    command = ["python3", "../track.py"]
    state   = true
    profile = "../profiles/track.csv"
    inputs  = { boxes = module.detect.boxes }
  }

  output "boxes" {
    value = module.detect.boxes
  }

  output "colours" {
    value = module.detect.colours
  }

  output "ids" {
    value = module.track.ids
  }
}
