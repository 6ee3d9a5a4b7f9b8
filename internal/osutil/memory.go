package osutil

// SharedMemory is where the system keeps shared memory that has names.
const SharedMemory = "/dev/shm"

// NamePrefix begins the names that NamedMemory is given.
const NamePrefix = "harpagon-"
