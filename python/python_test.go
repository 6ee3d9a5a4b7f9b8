package python

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePackage runs the tests of the package, those of numpy and PyTorch where they are.
func TestThePackage(t *testing.T) {
	ran := false
	for _, interpreter := range []string{"python3", "/usr/bin/python3"} { // the system's may have PyTorch
		if exec.Command(interpreter, "-c", "import unittest").Run() != nil {
			continue
		}
		ran = true
		said, err := exec.CommandContext(t.Context(), interpreter, "-B", "-m", "unittest", "discover", "-s", "tests", "-t", ".").CombinedOutput()
		require.NoError(t, err, "%s", said)
		t.Logf("%s: %s", interpreter, said)
		said, err = exec.CommandContext(t.Context(), interpreter, "-c", "import ast, pathlib\nfor p in pathlib.Path('../examples').rglob('*.py'): ast.parse(p.read_text(), str(p))").CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	if !ran {
		t.Skip("python3 is missing: the package in Python is not tested")
	}
}
