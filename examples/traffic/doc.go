// Package traffic is the example that reads road scenes: a detector finds
// vehicles, and two classifiers name the kind and the colour of each. The
// networks are the project's own; see the train folder. The pipeline is
// declared in traffic.hcl.
package traffic
