package hcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

func TestReadTrace(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want pipelines.Trace
	}{
		"counts":            {"3\n0\n# quiet\n\n2.5\n", pipelines.Trace{Seconds: []int64{0, 1, 2}, Counts: []float64{3, 0, 2.5}}},
		"seconds with gaps": {"second,count\n2, 4\n5,1\n", pipelines.Trace{Seconds: []int64{2, 5}, Counts: []float64{4, 1}}},
		"a mark in front":   {"\xef\xbb\xbf7\r\n", pipelines.Trace{Seconds: []int64{0}, Counts: []float64{7}}},
	} {
		got, diags := files.ReadTrace("t.csv", []byte(c.src))
		assert.Empty(t, diags, name)
		assert.Equal(t, c.want, got, name)
	}
	gaps, _ := files.ReadTrace("t.csv", []byte("2,4\n7,4\n"))
	assert.Equal(t, 8*time.Second, gaps.Span())
	assert.Equal(t, 1.0, gaps.Mean())
}

func TestReadTraceSaysWhatIsWrong(t *testing.T) {
	for src, want := range map[string]string{
		"1\n-2\n":        `t.csv:2:1: error: Negative count`,
		"1,5\n1,6\n":     `t.csv:2:1: error: Seconds out of order`,
		"0,5\n 4, x\n":   `t.csv:2:5: error: Not a number: "x"`,
		"0,5\n4\n":       `t.csv:2:1: error: Uneven lines`,
		"1,2,3\n":        `t.csv:1:5: error: Too many columns`,
		"0.5,2\n":        `t.csv:1:1: error: Invalid second`,
		"0\n0\n":         `t.csv:2:1: error: Empty trace`,
		"":               `t.csv:1:1: error: Empty trace`,
		"NaN\n":          `t.csv:1:1: error: Not a number`,
		"1\n1e30\n":      `t.csv:2:1: error: Count out of range`,
		"9999999999,1\n": `t.csv:1:1: error: Invalid second`,
	} {
		_, diags := files.ReadTrace("t.csv", []byte(src))
		found := Findings(diags)
		require.NotEmpty(t, found, src)
		assert.Contains(t, found[0].String(), want, src)
	}
}

func TestReadStamps(t *testing.T) {
	got, diags := files.ReadStamps("s.csv", []byte("TIMESTAMP,Tokens\n0.5,7\n0.5,1\n2,3\n"))
	assert.Empty(t, diags)
	assert.Equal(t, []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}, got)
	got, diags = files.ReadStamps("s.csv", []byte("2023-11-16 18:15:46.5\n2023-11-16 18:15:47.75\n"))
	assert.Empty(t, diags)
	assert.Equal(t, []time.Duration{0, 1250 * time.Millisecond}, got)
	for src, want := range map[string]string{
		"1\n0.5\n":                  `s.csv:2:1: error: Times out of order`,
		"-1\n":                      `s.csv:1:1: error: Negative time`,
		"# nothing\n":               `s.csv:1:1: error: Empty trace`,
		"1\n2023-11-16 18:15:46\n":  `s.csv:2:1: error: Mixed times`,
		"1e40\n":                    `s.csv:1:1: error: Time out of range`,
		"0001-01-01T00:00:00Z\n2\n": `s.csv:2:1: error: Mixed times`,
	} {
		_, diags := files.ReadStamps("s.csv", []byte(src))
		found := Findings(diags)
		require.NotEmpty(t, found, src)
		assert.Contains(t, found[0].String(), want, src)
	}
}

func TestArrivalsOfADeclaration(t *testing.T) {
	dir := t.TempDir()
	declare := func(arrivals string) (*Config, []Finding) {
		src := strings.Replace(arrivalsHCL, "ARRIVALS", arrivals, 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "p.hcl"), []byte(src), 0o644))
		c, diags := Load(LoadOptions{}, dir)
		return c, Findings(append(diags, c.Validate(nil)...))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.csv"), []byte("hardware,batch,duration_ms\ngpu,1,10\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "day.csv"), []byte("5\n15\n"), 0o644))
	c, found := declare("trace:day.csv")
	require.Empty(t, found)
	p := c.Document.Pipelines[0]
	assert.Equal(t, "trace:"+filepath.Join(dir, "day.csv"), p.Arrivals)
	assert.Equal(t, 10.0, p.Trace.Mean())

	_, found = declare("trace:night.csv")
	require.NotEmpty(t, found)
	assert.Equal(t, "Missing trace", found[0].Summary)
	assert.Equal(t, 5, found[0].Line)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.csv"), []byte("5\n-1\n"), 0o644))
	_, found = declare("trace:bad.csv")
	require.NotEmpty(t, found)
	assert.Contains(t, found[0].String(), "bad.csv:2:1: error: Negative count")
	for _, wrong := range []string{"poison", "gamma:0", "gamma", "trace:", "poisson:3", ":"} {
		_, found = declare(wrong)
		require.NotEmpty(t, found, wrong)
		assert.Equal(t, "Invalid arrivals", found[0].Summary, wrong)
	}
	_, found = declare("even")
	require.Len(t, found, 1)
	assert.Equal(t, "warning", found[0].Severity)
}

const arrivalsHCL = `hardware "gpu" { price = 1 }
pipeline "p" {
  slo        = "100ms"
  rate       = 5
  arrivals   = "ARRIVALS"
  attainment = 0.99
  input "x" {
    datatype = "FP32"
    shape    = [1]
  }
  module "m" {
    profile = "m.csv"
    inputs  = { x = input.x }
  }
  output "y" { value = module.m.y }
}
`

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte("3\n0\n# quiet\n\n2.5\n"))
	f.Add([]byte("second,count\n2, 4\n5,1\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		trace, diags := files.ReadTrace("t.csv", src)
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Start.Line < 1 || d.Subject.Start.Column < 1 || d.Subject.End.Byte > len(src) {
				t.Fatalf("finding without a place: %v", d)
			}
		}
		if len(trace.Seconds) != len(trace.Counts) {
			t.Fatal("seconds without counts")
		}
		for i := range trace.Counts {
			if trace.Counts[i] < 0 || i > 0 && trace.Seconds[i] <= trace.Seconds[i-1] {
				t.Fatalf("read %v", trace)
			}
		}
	})
}

func TestReadPercentiles(t *testing.T) {
	percents, times, diags := files.ReadPercentiles("p.csv", []byte("percent,ms\n50,0.8\n99, 2.5\n99.9,2.5\n"))
	require.Empty(t, diags)
	assert.Equal(t, []float64{50, 99, 99.9}, percents)
	assert.Equal(t, []time.Duration{800 * time.Microsecond, 2500 * time.Microsecond, 2500 * time.Microsecond}, times)
	for src, want := range map[string]string{
		"":                   "p.csv:1,1-1: No percentiles",
		"50\n":               "p.csv:1,1-3: Not two columns",
		"50,1\n50,2\n":       "p.csv:2,1-5: Percentiles out of order",
		"50,1\n 60, 0.5\n":   "p.csv:2,6-9: Time falls",
		"101,1\n":            "p.csv:1,1-6: Invalid percentile",
		"50,1\n99,4000000\n": "p.csv:2,4-11: Time out of range",
		"50,soon\n":          "p.csv:1,4-8: Not a number",
	} {
		_, _, diags := files.ReadPercentiles("p.csv", []byte(src))
		if assert.NotEmpty(t, diags, src) {
			assert.Contains(t, diags[0].Error(), want)
		}
	}
}

func FuzzReadPercentiles(f *testing.F) {
	f.Add([]byte("percent,ms\n50,0.8\n99,2.5\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		percents, times, diags := files.ReadPercentiles("p.csv", src)
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Start.Line < 1 || d.Subject.Start.Column < 1 || d.Subject.End.Byte > len(src) {
				t.Fatalf("finding without a place: %v", d)
			}
		}
		for i := range percents {
			if times[i] < 0 || i > 0 && (percents[i] <= percents[i-1] || times[i] < times[i-1]) {
				t.Fatalf("read %v %v", percents, times)
			}
		}
	})
}

func FuzzReadStamps(f *testing.F) {
	f.Add([]byte("TIMESTAMP,Tokens\n0.5,7\n0.5,1\n2,3\n"))
	f.Add([]byte("2023-11-16 18:15:46.5\n2023-11-16 18:15:47.75\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		all, diags := files.ReadStamps("s.csv", src)
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Start.Line < 1 || d.Subject.Start.Column < 1 || d.Subject.End.Byte > len(src) {
				t.Fatalf("finding without a place: %v", d)
			}
		}
		for i, at := range all {
			if at < 0 || i > 0 && at < all[i-1] {
				t.Fatalf("read %v", all)
			}
		}
	})
}
