# Three applications ask one model, each with an objective of its own. Which of
# them share a batch, and on what kind of function, is for harpagon plan to say.

variable "billing" {
  type    = string
  default = "1s"
}

provider "cloud" {
  vcpu_second   = 0.000013
  gpu_gb_second = 0.000015
  invocation    = 0.00000013
  billing       = var.billing
  vcpu          = { min = 0.05, max = 16, step = 0.05 }
  gpu_memory    = { min = 1, max = 24, step = 1 }
  gpu_slice     = "2ms"
  url           = "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}"
}

function "vgg19" {
  provider = provider.cloud
  profile  = "profiles/vgg19.json"

  input "image" {
    datatype = "FP32"
    shape    = [3, 32, 32]
  }

  application "assistant" {
    slo  = "500ms"
    rate = 5
  }

  application "video" {
    slo  = "800ms"
    rate = 10
  }

  application "archive" {
    slo  = "1s"
    rate = 20
  }
}
