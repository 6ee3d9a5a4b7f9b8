package experiments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trace has functions of 6, 7.5, 16, 28, 11 and 0 requests per second, and one of 1000.
const trace = `HashOwner,HashApp,HashFunction,Trigger,1,2
a,a,a,http,360,360
b,b,b,http,400,500
c,c,c,timer,960,960
d,d,d,http,1680,1680
e,e,e,queue,0,1320
f,f,f,http,0,0
g,g,g,http,60000,60000
`

func TestCountsAreReadAndChosen(t *testing.T) {
	got, err := readCounts("t.csv", strings.NewReader(trace))
	require.NoError(t, err)
	assert.Equal(t, [][]float64{{400.0 / 60, 16, 28, 0}, {500.0 / 60, 16, 28, 22}}, got)

	got, err = readCounts("t.csv", strings.NewReader("minute,w,x,y,z\n0,660,480,1740,960\n1,600,420,1680,900\n"))
	require.NoError(t, err)
	assert.Equal(t, [][]float64{{8, 16, 29, 11}, {7, 15, 28, 10}}, got)
}

func TestCountsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "the first line of a trace names its columns",
		"a,b\n":                    "t.csv:1: no column is called minute, and none by a minute's number",
		"a,1\nx,3\n":               "too few functions have requests",
		"a,1,2\nx,3,many\n":        `t.csv:2:5: "many" is no count of requests`,
		"a,1\nx,-1\n":              `t.csv:2:3: "-1" is no count of requests`,
		"a,1\nx\n":                 "wrong number of fields",
		"minute,x\n0,5\n":          "too few functions have requests",
		"minute,x\n":               "too few functions have requests",
		strings.Repeat("a,", 9999): "no column is called minute",
	} {
		_, err := readCounts("t.csv", strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	_, err := counted("none.csv")
	require.ErrorContains(t, err, "the trace cannot be read")
}

func TestTracesFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	require.NoError(t, os.WriteFile(file, []byte(trace), 0o600))
	got, err := traces(t.Context(), &Env{Quick: true, Trace: file})
	require.NoError(t, err)
	assert.NotEmpty(t, got.Rows)
	assert.Contains(t, strings.Join(got.Notes, " "), "t.csv")
}
