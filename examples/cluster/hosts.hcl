# Hosts for examples/cluster/emulated that are made when its load needs them, by a script that
# starts worker processes of this machine:
#
#	harpagon control --provision examples/cluster/hosts.hcl
#
# Each offers two devices which are not here.

provisioner "v100" {
  max     = 4
  devices = 2
  idle    = "30s"
  join    = "1m"

  commands {
    create = ["examples/cluster/worker.sh", "create", "--emulate", "v100=2"]
    delete = ["examples/cluster/worker.sh", "delete"]
  }
}
