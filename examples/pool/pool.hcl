# A ranking model that is asked with lists of different lengths. The GPU answers
# any list in time; the CPUs are cheaper for their speed, but only with short
# lists. harpagon plan says how many of each the budget is best spent on.

variable "budget" {
  type        = number
  description = "money per hour"
  default     = 3
}

hardware "gpu" {
  price  = 0.60
  memory = "16GiB"
}

hardware "cpu-large" {
  price = 0.35
}

hardware "cpu-small" {
  price = 0.12
}

pool "ranking" {
  profile  = "profiles/ranker.csv"
  sizes    = "sizes.csv"
  slo      = "60ms"
  budget   = var.budget
  base     = "gpu"
  hardware = ["gpu", "cpu-large", "cpu-small"]
  arrivals = "poisson"
}
