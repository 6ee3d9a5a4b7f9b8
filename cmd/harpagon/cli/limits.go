package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/sdk/local/roles"
)

// memoryShare is the part of a machine's memory that requests under way may hold
// where nothing else is said.
const memoryShare = 4

// limitFlags bound what callers can make a gateway hold.
type limitFlags struct {
	bytes, pipeline string
	connections     int
}

// Register adds the flags to a command.
func (f *limitFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.bytes, "max-bytes", "", "how much memory the requests under way may take, with what is made of them, such as 2GiB; a quarter of the machine's when left out")
	c.Flags().StringVar(&f.pipeline, "max-bytes-per-pipeline", "", "how much of it the requests to one pipeline may take; all when left out")
	registerConnections(c, &f.connections)
}

// registerConnections adds the flag that bounds connections; checkConnections says what is
// wrong with it.
func registerConnections(c *cobra.Command, most *int) {
	c.Flags().IntVar(most, "max-connections", 0, "how many connections each port keeps open; 0 means 4,096, or a quarter of the files that the process may have open where that is less")
}

// checkConnections says why there cannot be so many connections at most.
func checkConnections(most int) error {
	if most < 0 {
		return fmt.Errorf("--max-connections is %d; it is a number of connections, or 0", most)
	}
	return nil
}

// Limits are what the flags say.
func (f *limitFlags) Limits() (roles.Limits, error) {
	if err := checkConnections(f.connections); err != nil {
		return roles.Limits{}, err
	}
	l := roles.Limits{Connections: f.connections}
	var err error
	if l.Bytes, err = bytesFlag("max-bytes", f.bytes, requestBytes()); err != nil {
		return l, err
	}
	l.PipelineBytes, err = bytesFlag("max-bytes-per-pipeline", f.pipeline, 0)
	return l, err
}

func bytesFlag(name, text string, otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := quantity.ParseBytes(text)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%s holds no request", text)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", name, err)
	}
	return n, err
}

// requestBytes is how much memory requests may take in a process where nothing else is said.
func requestBytes() int64 { return physical() / memoryShare }

// physical is the memory that this process can have in bytes: the machine's, or its
// container's; 0 where it cannot be told.
func physical() int64 {
	total := int64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			total = kib << 10
		}
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < total {
			total = n
		}
	}
	return total
}
