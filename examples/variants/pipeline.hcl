# A pipeline that degrades before it drops: when more requests come than the devices can
# carry with the accurate networks, smaller ones take over, and give way again when the
# load is gone. It runs on emulated engines, which take as long as the profiles say:
#
#   harpagon plan examples/variants
#   harpagon plan examples/variants --var rate=150
#   harpagon up examples/variants
#   harpagon load sorting --rate 150 --duration 60s

hardware "gpu" {
  price = 2
  count = var.devices # fixed: the pipeline serves as accurately as they can
}

variable "rate" {
  type    = number
  default = 40
}

variable "devices" {
  type    = number
  default = 2
}

variable "accuracy" {
  type    = number
  default = 0.6
}

pipeline "sorting" {
  slo      = "400ms"
  rate     = var.rate
  accuracy = var.accuracy # never less
  arrivals = "even"

  plan {
    cost_model = "whole"
  }

  input "x" {
    datatype = "FP32"
    shape    = [4]
  }

  # Accuracies are the top-1 accuracies that torchvision states for ResNet-152, -50 and
  # -18 on ImageNet (weights V1); durations are made up in their proportion.
  module "classify" {
    engine   = "emulated"
    profile  = "profiles/resnet152.csv"
    accuracy = 0.783
    inputs   = { x = input.x }

    variant "resnet50" {
      engine   = "emulated"
      profile  = "profiles/resnet50.csv"
      accuracy = 0.761
    }

    variant "resnet18" {
      engine   = "emulated"
      profile  = "profiles/resnet18.csv"
      accuracy = 0.698
    }
  }

  output "label" {
    value = module.classify.y
  }
}
