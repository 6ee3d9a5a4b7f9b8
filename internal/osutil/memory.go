package osutil

// NamePrefix begins the names that NamedMemory is given.
const NamePrefix = "harpagon-"
