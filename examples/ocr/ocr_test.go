package ocr

import (
	"bytes"
	"image/png"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/ocr/page"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// leastAccuracy holds for pages of printed text without noise.
const leastAccuracy = 0.95

// needs skips a test where the networks are not installed.
func needs(t testing.TB) {
	t.Helper()
	if err := Installed("../.."); err != nil {
		t.Skip(err)
	}
}

func TestAccuracy(t *testing.T) {
	needs(t)
	r, err := NewReader("ocr.hcl")
	require.NoError(t, err)
	defer r.Close()
	for _, kind := range page.Kinds() {
		pages := 4
		if os.Getenv("HARPAGON_OCR_PAGES") != "" {
			pages = 40
		}
		report, err := Evaluate(r, kind, 1000, pages)
		require.NoError(t, err)
		t.Log(report.Describe())
		if kind != page.Noisy {
			assert.GreaterOrEqual(t, report.Accuracy(), leastAccuracy, kind)
		}
	}
	t.Log(r.Took)
}

func TestAnEmptyPage(t *testing.T) {
	needs(t)
	r, err := NewReader("ocr.hcl")
	require.NoError(t, err)
	defer r.Close()
	p := page.Draw(1, page.Clean)
	for i := range p.Image.Pix {
		p.Image.Pix[i] = 255
	}
	lines, err := r.Read(p.Image)
	require.NoError(t, err)
	assert.Empty(t, lines)
}

func TestDeclarationIsValid(t *testing.T) {
	needs(t)
	c, diags := hcl.Load(hcl.LoadOptions{Env: os.Environ()}, "ocr.hcl")
	require.Empty(t, diags)
	require.Empty(t, c.Validate(executors.Signatures(steps.New(steps.Builtin()))))
}

func TestPagesComeFromTheirSeed(t *testing.T) {
	encoded := func(seed uint64, kind page.Kind) []byte {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, page.Draw(seed, kind).Image))
		return b.Bytes()
	}
	for _, kind := range page.Kinds() {
		assert.Equal(t, encoded(7, kind), encoded(7, kind))
		assert.NotEqual(t, encoded(7, kind), encoded(8, kind))
		assert.GreaterOrEqual(t, len(page.Draw(7, kind).Lines), 8)
	}
}
