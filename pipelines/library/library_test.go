package library_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/library"
)

func ExampleDocument() {
	doc, err := library.Document()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range doc.Pipelines {
		order, _ := p.Order()
		fmt.Println(p.Name, p.SLO, order)
	}
	// Output:
	// actdet 250ms [detect identity motion action]
	// caption 300ms [features encode decode]
	// face 120ms [detect keypoints]
	// pose 250ms [parts recognise]
	// traffic 180ms [detect vehicle pedestrian]
}

func TestDocumentIsWhatTheFilesSay(t *testing.T) {
	embedded, err := library.Document()
	require.NoError(t, err)
	config, diags := hcl.Load(hcl.LoadOptions{}, ".")
	require.Empty(t, diags)
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	onDisk := config.Document
	for i := range onDisk.Pipelines {
		for k := range onDisk.Pipelines[i].Modules {
			m := &onDisk.Pipelines[i].Modules[k]
			rel, err := filepath.Rel(here, m.ProfileFile)
			require.NoError(t, err)
			m.ProfileFile = filepath.ToSlash(rel)
		}
	}
	assert.Equal(t, onDisk, embedded)
	assert.Empty(t, config.Validate(nil))
}

func TestEveryModuleIsProfiledOnAllHardware(t *testing.T) {
	doc, err := library.Document()
	require.NoError(t, err)
	assert.Len(t, doc.Pipelines, 5)
	for _, p := range doc.Pipelines {
		for _, m := range p.Modules {
			kinds := map[string]int{}
			for _, at := range m.Profile.Points {
				kinds[at.Hardware]++
				assert.Positive(t, at.MemoryMiB)
			}
			assert.Len(t, kinds, len(doc.Hardware), "%s.%s", p.Name, m.Name)
		}
	}
}

func TestApplication(t *testing.T) {
	p, hardware, err := library.Application("traffic")
	require.NoError(t, err)
	assert.Equal(t, "traffic", p.Name)
	assert.Len(t, hardware, 3)
	_, _, err = library.Application("weather")
	assert.ErrorContains(t, err, "actdet, caption, face, pose, traffic")
}
