package experiments

import (
	"os"
	"testing"
)

// long skips a test that takes half a minute and more, but for HARPAGON_LONG.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("takes longer than others; HARPAGON_LONG=1 runs it")
	}
}
