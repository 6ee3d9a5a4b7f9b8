package sdk_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client must not compile a server.
func TestPackageIsLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, dep := range strings.Fields(string(out)) {
		for _, heavy := range []string{
			"go.temporal.io/", "google.golang.org/grpc", "github.com/prometheus/", "gorgonia.org/",
			"github.com/harpagon/harpagon/gateway", "github.com/harpagon/harpagon/executors", "github.com/harpagon/harpagon/scheduler",
			"github.com/harpagon/harpagon/workflows", "github.com/harpagon/harpagon/activities",
		} {
			require.False(t, strings.HasPrefix(dep, heavy), "sdk imports %s", dep)
		}
	}
}
