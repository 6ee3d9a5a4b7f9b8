# What the five applications of this folder run on: a core of the machine that their profiles
# were measured on.

hardware "cpu" {
  price = 0.0425 # per core and hour, as a rented machine of two cores costs
}
