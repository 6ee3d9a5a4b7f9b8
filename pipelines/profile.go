package pipelines

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Bounds of what a profile may say.
const (
	MaxBatch       = 65536
	MaxPoints      = 10_000
	MaxConcurrency = 1024
	MaxDuration    = 24 * time.Hour
)

func ComparePoints(a, b Point) int {
	if c := strings.Compare(a.Hardware, b.Hardware); c != 0 {
		return c
	}
	if a.Concurrency != b.Concurrency {
		return a.Concurrency - b.Concurrency
	}
	return a.Batch - b.Batch
}

// Describe says how long a batch takes.
func (p Point) Describe() string {
	if p.Concurrency > 1 {
		return fmt.Sprintf("batch %d, %d at a time, takes %s", p.Batch, p.Concurrency, quantity.Duration(p.Duration))
	}
	return fmt.Sprintf("batch %d takes %s", p.Batch, quantity.Duration(p.Duration))
}

// CSV writes the points as a profile file. What is unknown stays empty.
func (p Profile) CSV() []byte {
	var b bytes.Buffer
	b.WriteString("hardware,batch,concurrency,duration_ms,memory_mib,spread_ms,others_cores\n")
	sorted := slices.Clone(p.Points)
	slices.SortFunc(sorted, ComparePoints)
	for _, at := range sorted {
		fmt.Fprintf(&b, "%s,%d,%d,%s,%s,%s,%s\n", at.Hardware, at.Batch, max(at.Concurrency, 1),
			asMillis(at.Duration), number(at.MemoryMiB), known(at.Spread > 0, asMillis(at.Spread)), known(at.Others > 0, number(at.Others)))
	}
	return b.Bytes()
}

func asMillis(d time.Duration) string { return number(quantity.Millis(d)) }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func known(is bool, text string) string {
	if !is {
		return ""
	}
	return text
}

// Disturbed says which of the modules were profiled while others used so much
// of the processor that durations may be too long, and what to do about it. It
// is empty when there is none, as far as known.
func Disturbed(modules ...Module) string {
	var names []string
	var others float64
	for _, m := range modules {
		most := 0.0
		for _, at := range m.Profile.Points {
			most = max(most, at.Others)
		}
		if most > 0 {
			names, others = append(names, m.Name), max(others, most)
		}
	}
	if len(names) == 0 {
		return ""
	}
	were, their := "was", "its"
	if len(names) > 1 {
		were, their = "were", "their"
	}
	return fmt.Sprintf("others used up to %.1f cores while %s %s profiled, so %s durations may be too long; harpagon profile --again measures anew when the machine is calm",
		others, strings.Join(names, ", "), were, their)
}
