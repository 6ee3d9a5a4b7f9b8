// Package tutorials runs the tutorials as who reads them would.
package tutorials

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

// programs is a folder with harpagon, which serves on free ports.
func programs(t *testing.T) string {
	bin := t.TempDir()
	program := filepath.Join(t.TempDir(), "harpagon")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/harpagon").CombinedOutput()
	require.NoError(t, err, "%s", out)
	write(t, bin, "harpagon", `case $1 in up) shift; set -- up --http 127.0.0.1:0 --grpc 127.0.0.1:0 --ui 127.0.0.1:0 "$@";; esac
exec `+program+` "$@"`)
	return bin
}

// write makes a program of the shell.
func write(t *testing.T, bin, name, script string) {
	require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// TestTutorials runs each page from top to bottom, in a folder that has a clone of the
// repository. Package examples/deploy runs that of Kubernetes.
func TestTutorials(t *testing.T) {
	testkit.Long(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	bin := programs(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	// A machine without a GPU or PyTorch does what it can, on its cores.
	write(t, bin, "nvidia-smi", "echo NVIDIA CPU")
	write(t, bin, "pip", "")
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	write(t, bin, "python3", `case "$*" in "-m venv env") mkdir -p env/bin; : > env/bin/activate;; *) exec `+python+` "$@";; esac`)
	compiler, err := exec.LookPath("go")
	require.NoError(t, err)
	write(t, bin, "go", `gateway=$(sed -n 's|.*"gateway": "http://\(.*\)",|\1|p' .harpagon/endpoints.json)
case "$*" in *127.0.0.1:8080) set -- run . "$gateway";; esac
HOME=`+os.Getenv("HOME")+` exec `+compiler+` "$@"`)
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range slices.DeleteFunc(pages, func(page string) bool { return page == "fleet-in-kubernetes.md" }) {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			home := t.TempDir()
			require.NoError(t, os.Symlink(root, filepath.Join(home, "harpagon")))
			env := []string{"HOME=" + home, "PYTHONPATH=" + filepath.Join(root, "docs/tutorials/testdata/python")}
			(&testkit.Reader{TB: t, Folder: home, Bin: bin, Env: env}).Read(testkit.Steps(string(text)))
		})
	}
}
