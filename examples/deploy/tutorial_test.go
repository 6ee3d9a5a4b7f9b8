package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"

	"github.com/harpagon/harpagon/internal/testkit"
)

// TestTheTutorial carries out docs/tutorials/fleet-in-kubernetes.md, on the pods that the
// chart makes of the page's values. In place of docker and a cluster are programs that do
// nothing, or answer as kubectl would.
func TestTheTutorial(t *testing.T) {
	testkit.Long(t)
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs PostgreSQL: initdb and postgres")
		}
	}
	text, err := os.ReadFile("../../docs/tutorials/fleet-in-kubernetes.md")
	require.NoError(t, err)
	steps := testkit.Steps(string(text))
	values := slices.IndexFunc(steps, func(s testkit.Step) bool { return s.File == "values.yaml" })
	require.GreaterOrEqual(t, values, 0)
	all := rendered(t, steps[values].Text)
	program := filepath.Join(t.TempDir(), "harpagon")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/harpagon").CombinedOutput()
	require.NoError(t, err, "%s", out)

	c, pods := newCluster(t, program, all)
	for _, p := range pods {
		c.start(p)
	}
	for _, p := range pods {
		require.Eventually(t, func() bool { return c.ready(p) }, 5*time.Minute, 50*time.Millisecond, p.name)
	}

	helm, err := exec.LookPath("helm")
	require.NoError(t, err)
	bin, deleted := t.TempDir(), filepath.Join(t.TempDir(), "deleted")
	for name, script := range map[string]string{
		"docker": "", "kind": "",
		"helm":    `case "$*" in *" install "*) ` + helm + ` "${@/install/template}" > /dev/null;; esac`,
		"kubectl": `case "$*" in *" get "*" -o name") echo "` + strings.Join(controllers(all), "\n") + `";; *"get secret"*) printf ` + secret + ` | base64;; *" delete pod harpagon-"*) echo "${5/harpagon-/rel-}" > ` + deleted + `;; esac`,
		"harpagon": fmt.Sprintf(`args=("${@/127.0.0.1:8080/%s:8080}"); TEMPORAL_ADDRESS=%s:7233 HARPAGON_TOKEN=%s %s "${args[@]/127.0.0.1:8092/%s:8092}" 2>&1 | sed "s/rel-/harpagon-/g"`,
			c.at["rel-gateway-0"], c.at["rel-temporal-0"], secret, program, c.at[podOf(pods, "rel-control")]),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\nset -o pipefail\n"+script+"\n"), 0o700))
	}
	home := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(root, filepath.Join(home, "harpagon")))
	reader := &testkit.Reader{TB: t, Folder: home, Bin: bin}
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			if pod, err := os.ReadFile(deleted); err == nil && strings.HasSuffix(string(pod), "\n") {
				c.stop(strings.TrimSpace(string(pod)))
				return
			}
		}
	}()
	for i := range steps { // each runs in a shell of its own, which has no jobs of another
		steps[i].Text = strings.Replace(steps[i].Text, "kill %1 %2 %3", "true", 1)
	}
	reader.Read(steps)
	require.FileExists(t, deleted)
}

// controllers are those of pods, as kubectl names them.
func controllers(all []any) (names []string) {
	for _, m := range all {
		switch m := m.(type) {
		case *apps.Deployment:
			names = append(names, strings.Replace(m.Name, "rel-", "deployment.apps/harpagon-", 1))
		case *apps.StatefulSet:
			names = append(names, strings.Replace(m.Name, "rel-", "statefulset.apps/harpagon-", 1))
		}
	}
	slices.Sort(names)
	return names
}

// podOf is the first pod of a controller.
func podOf(pods []pod, controller string) string {
	return pods[slices.IndexFunc(pods, func(p pod) bool { return strings.HasPrefix(p.name, controller) })].name
}
