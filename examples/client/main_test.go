package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPageShowsThisProgram keeps the page's program compiled and short.
func TestPageShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(source), "package main\n")
	require.True(t, found)
	program = "package main\n" + program
	page, err := os.ReadFile("../../docs/reference/go.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "```go\n"+program+"```", "docs/reference/go.md shows another program than examples/client/main.go")
	assert.LessOrEqual(t, strings.Count(program, "\n"), 30)
}
