package cli

// recordUsage describes the flag --record of what serves.
const recordUsage = "write what dispatchers were told and decided to a `file` for harpagon replay when it ends, and on SIGUSR1"
