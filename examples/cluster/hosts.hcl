# Hosts for examples/cluster/emulated that are made when its load needs them:
#
#	harpagon control --provision examples/cluster/hosts.hcl
#
# Each is a worker process of this machine that offers two devices which are not here.

provisioner "v100" {
  max     = 4
  devices = 2
  idle    = "30s"
  join    = "1m"

  process {
    flags = ["--emulate", "v100=2"]
  }
}
