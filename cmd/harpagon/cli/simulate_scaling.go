package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/cluster"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// scaledCluster is how many devices a cluster had that followed its own advice.
type scaledCluster struct {
	Cluster string  `json:"cluster"`
	Mean    float64 `json:"mean_devices"` // that serve or start
	Changes int     `json:"changes"`
	Sizes   []sized `json:"sizes"`
}

// sized is the end of a span of measures.
type sized struct {
	At       quantity.MS `json:"at_ms"`
	Devices  int         `json:"devices"` // that serve
	Paid     int         `json:"paid"`    // these and those that start
	Requests int64       `json:"requests"`
	Missed   int64       `json:"missed"`
}

// scaling is how the cluster's size follows what is measured, nil where it is fixed.
func (f *simulateFlags) scaling(s *scheduler.Spec, c *cluster.Plan) (*simulate.Scaling, error) {
	switch {
	case !f.scales:
		return nil, nil
	case f.goodput:
		return nil, errors.New("--find-goodput is about devices that stay; leave out --scale")
	case f.scale < 0:
		return nil, fmt.Errorf("--scale %v: take a time of zero or more until devices serve", f.scale)
	case len(c.SubClusters) > 1:
		return nil, fmt.Errorf("--scale: cluster %q is divided into %d sub-clusters; one that a single dispatcher decides for can be scaled here", c.Cluster, len(c.SubClusters))
	}
	return &simulate.Scaling{Start: f.scale, Options: size.Options{Min: s.Cluster.Devices.Min, Max: s.Cluster.Devices.Max}}, nil
}

// scaledAs sums up the sizes of a cluster.
func scaledAs(name string, all []simulate.Size) scaledCluster {
	c := scaledCluster{Cluster: name, Sizes: []sized{}}
	for _, z := range all {
		if z.Advice != 0 {
			c.Changes++
		}
		c.Mean += float64(z.Paid) / float64(len(all))
		c.Sizes = append(c.Sizes, sized{quantity.MS(z.At), z.Devices, z.Paid, z.Requests, z.Missed})
	}
	return c
}

// Describe lists the devices minute by minute.
func (c scaledCluster) Describe() string {
	text := fmt.Sprintf("cluster %s: %s devices on average, %d changes; at the end of each minute:", c.Cluster, quantity.Number(c.Mean), c.Changes)
	for i, z := range c.Sizes {
		if at := time.Duration(z.At); at%time.Minute == 0 || i == len(c.Sizes)-1 {
			text += fmt.Sprintf(" %d", z.Devices)
		}
	}
	return text + "\n"
}
