package hcl_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

const priceList = `# what devices cost in a region
hardware,price,spot_price,interruptions,region
p3.2xlarge,3.06,0.92,0.0003,us-east-1
g4dn.xlarge,0.526,0.16,,us-east-1
c5n.2xlarge,0.432,,,us-east-1
t3.xlarge,,0.05,0.001,us-east-1
`

// hardwareOn loads hardware blocks beside a price list, and one pipeline that uses
// none of them.
func hardwareOn(t *testing.T, list, blocks string) (pipelines.Document, []hcl.Finding) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prices.csv"), []byte(list), 0o600))
	file := filepath.Join(dir, "a.hcl")
	require.NoError(t, os.WriteFile(file, []byte(blocks), 0o600))
	c, diags := hcl.Load(hcl.LoadOptions{}, file)
	diags = append(diags, c.Validate(nil)...)
	return c.Document, slices.DeleteFunc(hcl.Findings(diags), func(f hcl.Finding) bool { return f.Summary == "No pipeline" })
}

func TestPricesFromAList(t *testing.T) {
	doc, found := hardwareOn(t, priceList, `
hardware "v100" {
  prices    = "prices.csv"
  listed_as = "p3.2xlarge"
}
hardware "v100-spot" {
  prices    = "prices.csv"
  listed_as = "p3.2xlarge"
  market    = "spot"
  recovery  = "3m"
}
hardware "c5n.2xlarge" { prices = "prices.csv" }
hardware "own" {
  price         = 1.5
  interruptions = 0.02
}
`)
	require.Empty(t, found)
	v100, spot := doc.HardwareNamed("v100"), doc.HardwareNamed("v100-spot")
	assert.Equal(t, 3.06, v100.Price)
	assert.Zero(t, v100.Interruptions)
	assert.Equal(t, 0.92, spot.Price)
	assert.Equal(t, 0.0003, spot.Interruptions)
	assert.Equal(t, 3*time.Minute, spot.Recovery)
	assert.Equal(t, 0.432, doc.HardwareNamed("c5n.2xlarge").Price)
	assert.Equal(t, 0.02, doc.HardwareNamed("own").Interruptions)

	text := hcl.HCL(doc)
	assert.Contains(t, string(text), `listed_as = "p3.2xlarge"`)
	again, diags := hcl.Parse("canonical.hcl", text)
	require.Empty(t, diags)
	assert.Equal(t, doc, again.Document)
}

func TestGapsInAPriceList(t *testing.T) {
	const one = "hardware \"a\" {\n  prices = \"prices.csv\"\n"
	for _, x := range []struct {
		name, list, block, summary, detail string
		file                               string
		line                               int
	}{
		{"no line", priceList, `hardware "p3.2xlarg" { prices = "prices.csv" }`, "Not on the price list", `Did you mean "p3.2xlarge"?`, "a.hcl", 1},
		{"no price", priceList, one + "  listed_as = \"t3.xlarge\"\n}", "Gap in the price list", "no price", "prices.csv", 6},
		{"no spot price", priceList, one + "  listed_as = \"c5n.2xlarge\"\n  market = \"spot\"\n}", "Gap in the price list", "no spot price", "prices.csv", 5},
		{"no interruptions", priceList, one + "  listed_as = \"g4dn.xlarge\"\n  market = \"spot\"\n}", "Gap in the price list", "column interruptions", "prices.csv", 4},
		{"no such column", "hardware,price\na,1\n", one + "  market = \"spot\"\n}", "Gap in the price list", "column spot_price", "prices.csv", 2},
		{"no column", "hardware,cost\na,1\n", one + "}", "Missing column", "price is missing", "prices.csv", 1},
		{"twice", "hardware,price\na,1\na,2\n", one + "}", "Listed twice", "line 2", "prices.csv", 3},
		{"no number", "hardware,price\na,cheap\n", one + "}", "Not a number", "cheap", "prices.csv", 2},
		{"nothing", "hardware,price\na,0\n", one + "}", "Invalid price", "above zero", "prices.csv", 2},
		{"no name", "hardware,price\n,1\n", one + "}", "Missing hardware", "kind of hardware", "prices.csv", 2},
		{"too often", "hardware,price,interruptions\na,1,61\n", one + "}", "Invalid interruptions", "from 0 to 60", "prices.csv", 2},
		{"empty", "", one + "}", "Broken price list", "first line names", "prices.csv", 1},
		{"quotes", "hardware,price\n\"a,1\n", one + "}", "Broken price list", "quoted-field", "prices.csv", 2},
		{"no file", priceList, `hardware "a" { prices = "other.csv" }`, "Missing price list", "hardware,price", "a.hcl", 1},
		{"two prices", priceList, one + "  price = 1\n}", "Two prices", "price or prices", "a.hcl", 3},
		{"two rates", priceList, one + "  interruptions = 1\n}", "Two rates of interruptions", "price list", "a.hcl", 3},
		{"no list", priceList, "hardware \"a\" {\n  price = 1\n  market = \"spot\"\n}", "No price list", "prices =", "a.hcl", 3},
		{"no market", "hardware,price\na,1\n", one + "  market = \"sport\"\n}", "Unknown market", `Did you mean "spot"?`, "a.hcl", 3},
		{"neither", priceList, "hardware \"a\" {\n}", "Missing price", "prices =", "a.hcl", 1},
		{"negative", priceList, "hardware \"a\" {\n  price = 1\n  interruptions = -1\n}", "Invalid interruptions", "0.0003", "a.hcl", 3},
		{"days", priceList, "hardware \"a\" {\n  price = 1\n  recovery = \"25h\"\n}", "Invalid recovery", "a day", "a.hcl", 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, found := hardwareOn(t, x.list, x.block)
			require.Len(t, found, 1, "%v", found)
			assert.Equal(t, x.summary, found[0].Summary)
			assert.Contains(t, found[0].Detail, x.detail)
			assert.Equal(t, x.file, filepath.Base(found[0].File))
			assert.Equal(t, x.line, found[0].Line, "%v", found[0])
		})
	}
}

func FuzzReadPrices(f *testing.F) {
	for _, src := range []string{priceList, "hardware,price\na,1e309\n", "price,hardware\n1,a,,\n", "\xef\xbb\xbfhardware,price\n\"a\",2\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		defer testkit.WatchStalls(t, len(src))()
		list, diags := files.ReadPrices("p.csv", []byte(src))
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Start.Line < 1 || d.Subject.Start.Line > 1+strings.Count(src, "\n") {
				t.Fatalf("no place: %v", d)
			}
		}
		h := pipelines.Hardware{Listed: pipelines.Listing{Name: "a", Market: pipelines.MarketSpot}}
		if !list.Set(&h, nil).HasErrors() && !(h.Price > 0 && h.Interruptions >= 0) {
			t.Fatalf("price %v, interruptions %v", h.Price, h.Interruptions)
		}
	})
}
