# Sixteen callers, whose sound comes in chunks of 32 ms: a recurrent network tells of each
# whether somebody speaks. What it remembers of a caller goes from chunk to chunk. The network
# is Silero VAD, as npm's package @ricky0123/vad-web ships it; the README says how to get it.

variable "model" {
  type        = string
  default     = "../../node_modules/@ricky0123/vad-web/dist/silero_vad_v5.onnx"
  description = "the network"
}

hardware "cpu" {
  price = 0.0425
}

pipeline "voices" {
  slo = "100ms"

  stream {
    rate   = 31.25 # chunks of 512 samples, of 16000 a second
    count  = 16
    jitter = "5ms"
  }

  input "chunk" {
    datatype = "FP32"
    shape    = [512]
  }

  module "detect" {
    model   = var.model
    engine  = "onnxruntime"
    state   = true # its input "state" is fed with its output "stateN" of the chunk before
    inputs  = { input = input.chunk, sr = 16000 }
    batches = [1, 2, 4, 8, 16]
  }

  output "speech" {
    value = module.detect.output
  }
}
