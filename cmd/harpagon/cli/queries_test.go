package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func queryPorts() []pipelines.Port {
	return []pipelines.Port{{Name: "items", Datatype: "FP32", Shape: []int64{-1, 2}}}
}

func TestQueriesOfALoadHaveTheSizesOfTheMix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sizes.csv")
	require.NoError(t, os.WriteFile(file, []byte("size,weight\n10,3\n40,1\n90,0\n"), 0o600))
	f := loadFlags{sizes: file}
	all, err := f.queries(&Deps{}, "ranking", queryPorts())
	require.NoError(t, err)
	require.Len(t, all, queriesKept)
	count := map[int64]int{}
	for _, q := range all {
		shape := q["items"].Shape
		require.Equal(t, int64(2), shape[1])
		count[shape[0]]++
	}
	assert.Equal(t, map[int64]int{10: queriesKept * 3 / 4, 40: queriesKept / 4}, count)
	again, err := f.queries(&Deps{}, "ranking", queryPorts())
	require.NoError(t, err)
	assert.Equal(t, all, again, "the seed gives the same load")
}

func TestSizesComeFromTheDeclaration(t *testing.T) {
	var errs bytes.Buffer
	d := &Deps{Stderr: &errs, Environ: []string{}}
	f := loadFlags{sizes: "../../../examples/pool"}
	all, err := f.queries(d, "ranking", queryPorts())
	require.NoError(t, err, errs.String())
	assert.InDelta(t, queriesKept, len(all), 1)
	for why, bad := range map[string]loadFlags{
		`declares no pool "other"`: {sizes: "../../../examples/pool"},
		"give one of the two":      {sizes: "../../../examples/pool", inputs: []string{"items=x"}},
		"no such file":             {sizes: "missing.csv"},
	} {
		_, err := bad.queries(d, "other", queryPorts())
		assert.ErrorContains(t, err, why)
	}
}

func TestManyIdleDevicesAreCounted(t *testing.T) {
	var all []deviceRow
	for i := range 40 {
		all = append(all, deviceRow{Device: fmt.Sprint(i), Hardware: []string{"cpu", "t4"}[i%2], Executors: max(0, 3-i)})
	}
	all[20].GPU = &gpuRow{}
	rows, idle := worthShowing(all)
	assert.Len(t, rows, 4)
	assert.Equal(t, "17 cpu, 19 t4", idle)
	rows, idle = worthShowing(all[4:20])
	assert.Len(t, rows, 16)
	assert.Empty(t, idle)
}

func TestAQueryIsMadeUp(t *testing.T) {
	in, err := (&inferFlags{size: 7}).query(queryPorts())
	require.NoError(t, err)
	assert.Equal(t, []int64{7, 2}, in["items"].Shape)
	for why, bad := range map[string]inferFlags{
		"between 1 and":       {size: -1},
		"give one of the two": {size: 3, inputs: []string{"items=x"}},
	} {
		_, err = bad.query(queryPorts())
		assert.ErrorContains(t, err, why)
	}
	_, err = (&inferFlags{size: 7}).query([]pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{3, 96, 96}}})
	assert.ErrorContains(t, err, "only pools take queries of any size")
}
