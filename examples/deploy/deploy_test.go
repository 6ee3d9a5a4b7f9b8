package deploy

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/harpagon/harpagon/cmd/harpagon/cli"
)

// checkCommand checks with the program that a command and its flags exist.
func checkCommand(t *testing.T, where string, args []string) {
	t.Helper()
	var out bytes.Buffer
	root := cli.New(cli.Deps{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out})
	c, _, err := root.Find(args[:1])
	require.NoError(t, err, where)
	require.NotEqual(t, root, c, "%s: there is no command %q", where, args[0])
	for _, a := range args[1:] {
		if name, isFlag := strings.CutPrefix(a, "--"); isFlag {
			name, _, _ = strings.Cut(name, "=")
			assert.NotNil(t, c.Flags().Lookup(name), "%s: %s has no flag --%s", where, args[0], name)
		}
	}
}

func TestUnitsNameWhatExists(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	require.Len(t, units, 3)
	settings, err := os.ReadFile("systemd/harpagon.env")
	require.NoError(t, err)
	for _, file := range units {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/harpagon (.*)$`).FindSubmatch(text)
		require.NotNil(t, start, file)
		checkCommand(t, file, strings.Fields(string(start[1])))
		for _, variable := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllSubmatch(text, -1) {
			assert.Contains(t, string(settings), string(variable[1])+"=", "%s: the settings do not have it", file)
		}
	}
}

func TestUnitsAreValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	units, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	for _, file := range units {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		copied := filepath.Join(t.TempDir(), filepath.Base(file))
		// The program is not installed here; any other is.
		require.NoError(t, os.WriteFile(copied, bytes.Replace(text, []byte("/usr/bin/harpagon"), []byte("/bin/true"), 1), 0o600))
		out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out))
	}
}

func TestComposeNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("compose.yml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Build   struct{ Context, Dockerfile, Target string }
			Command []string
			Volumes []string
			Ports   []string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	docker, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for name, s := range file.Services {
		for _, p := range s.Ports {
			assert.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s: %s listens beyond loopback", name, p)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				_, err := os.Stat(from)
				assert.NoError(t, err, name)
			}
		}
		if s.Build.Target == "" {
			continue
		}
		checkCommand(t, "compose.yml, "+name, s.Command)
		checkListens(t, "compose.yml, "+name, s.Command)
		assert.Contains(t, string(docker), " AS "+s.Build.Target+"\n")
		_, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile))
		assert.NoError(t, err, name)
	}
	assert.Subset(t, slices.Collect(maps.Keys(file.Services)), []string{"control", "gateway", "worker", "temporal", "postgres"})
}

// The image "node" is the static binary in an empty file system, run by a user that
// exists nowhere. It is built without cgo, which compiles everything once more.
func TestTheStaticBinaryNeedsNothing(t *testing.T) {
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("takes minutes; HARPAGON_LONG=1 runs it")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, for chroot")
	}
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	build := exec.Command("go", "build", "-trimpath", "-tags", "noserver", "-o", filepath.Join(root, "harpagon"), "./cmd/harpagon")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	home := filepath.Join(root, "state")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Chown(home, 65532, 65532))
	declared, err := os.ReadFile("../../pipelines/library/hardware.hcl")
	require.NoError(t, err)
	pipeline, err := os.ReadFile("../../pipelines/library/actdet.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(home, "a.hcl"), append(declared, pipeline...), 0o644))
	require.NoError(t, os.Chown(filepath.Join(home, "a.hcl"), 65532, 65532))
	for _, args := range [][]string{{"version"}, {"fmt", "/state/a.hcl"}, {"init", "/state/new"}} {
		run := exec.CommandContext(context.Background(), "/harpagon", args...)
		run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		run.Dir, run.Env = "/state", []string{}
		out, err := run.CombinedOutput()
		require.NoError(t, err, "harpagon %s: %s", strings.Join(args, " "), out)
	}
}
