provider "cloud" {
  gpu_gb_second = 0.000015
  invocation    = 0.00000013
  gpu_memory    = { min = 1, max = 8, step = 1 }
  url           = "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}"
}

function "ranker" {
  provider = provider.cloud
  profile  = "ranker.json"

  input "x" {
    datatype = "FP32"
    shape    = [2]
  }

  application "hasty" {
    slo  = "300ms"
    rate = 30
  }

  application "calm" {
    slo  = "600ms"
    rate = 60
  }
}
