package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadmeShowsThisProgram keeps the front page's program compiled and short.
func TestReadmeShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(source), "package main\n")
	require.True(t, found)
	program = "package main\n" + program
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```go\n"+program+"```", "README.md shows another program than examples/client/main.go")
	assert.LessOrEqual(t, strings.Count(program, "\n"), 30)
}
