package testkit

import (
	"os"
	"testing"
)

// Long skips a test that takes half a minute and more, but for HARPAGON_LONG.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("HARPAGON_LONG") == "" {
		t.Skip("takes longer than others; HARPAGON_LONG=1 runs it")
	}
}
