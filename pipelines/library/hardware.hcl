# Three kinds of devices that the applications of this folder may run on. The
# prices per hour are in the proportions that clouds charge for a recent, a
# middling and a small accelerator.

hardware "gpu-large" {
  price  = 2.48
  memory = "16GiB"
}

hardware "gpu-medium" {
  price  = 1.46
  memory = "16GiB"
}

hardware "gpu-small" {
  price  = 0.53
  memory = "16GiB"
}
