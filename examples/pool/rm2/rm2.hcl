# RM2, a recommendation model, on the four kinds of instances of the Kairos paper
# (HPDC '23), with its prices, objective and budget.

variable "budget" {
  type        = number
  description = "money per hour"
  default     = 2.5
}

hardware "g4dn.xlarge" {
  price = 0.526
}

hardware "c5n.2xlarge" {
  price = 0.432
}

hardware "r5n.large" {
  price = 0.149
}

hardware "t3.xlarge" {
  price = 0.1664
}

pool "rm2" {
  profile  = "rm2.csv"
  sizes    = "sizes.csv"
  slo      = "350ms"
  budget   = var.budget
  base     = "g4dn.xlarge"
  hardware = ["g4dn.xlarge", "c5n.2xlarge", "r5n.large", "t3.xlarge"]
  arrivals = "poisson"
}
