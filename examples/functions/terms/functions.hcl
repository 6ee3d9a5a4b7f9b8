# The three applications of the HarmonyBatch paper (Table I) under all terms that its authors'
# program bills by, in yuan: host memory, GPU functions by whole seconds with a third of a vCPU
# for each GB, and longest latencies 1.2 times as long on a part of a GPU.

provider "cloud" {
  vcpu_second   = 9e-5
  gpu_gb_second = 1.1e-4
  invocation    = 9e-7
  vcpu          = { min = 0.05, max = 16, step = 0.05 }
  gpu_memory    = { min = 1, max = 24, step = 1 }
  gpu_slice     = "2ms"

  memory_gb_second   = 9e-6
  memory_per_vcpu    = { min = 1, max = 4, step = 0.0625 }
  gpu_billing        = "1s"
  gpu_vcpu_per_gb    = 1 / 3
  gpu_latency_factor = 1.2
}

function "vgg19" {
  provider = provider.cloud
  profile  = "profiles/vgg19.json"

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
