package harpagon_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// NOTICE names every module that the binary carries, each once and none besides. Whoever
// adds one puts it under its licence there.
func TestNoticeNamesWhatTheBinaryCarries(t *testing.T) {
	// Platforms differ by few; this machine's are what is built here.
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/harpagon").CombinedOutput()
	require.NoError(t, err, string(out))
	carried := strings.Fields(string(out))
	slices.Sort(carried)
	carried = slices.DeleteFunc(slices.Compact(carried), func(m string) bool { return m+"/" == module })
	text, err := os.ReadFile("NOTICE")
	require.NoError(t, err)
	var named []string
	for _, m := range regexp.MustCompile(`(?m)^  (\S+\.\S+/\S+)$`).FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	assert.Equal(t, carried, named)
}
