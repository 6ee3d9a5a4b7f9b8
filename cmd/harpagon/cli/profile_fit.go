package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// callColumns are those that a file of measured calls has, in any order.
var callColumns = []string{"platform", "size", "batch", "latency_ms"}

// fit finds the coefficients of a function from measured calls.
func (f *profileFlags) fit(d *Deps) error {
	file, err := os.Open(f.calls)
	if err != nil {
		return fmt.Errorf("the measured calls cannot be read: %w", err)
	}
	defer file.Close()
	samples, err := readCalls(f.calls, file)
	if err != nil {
		return err
	}
	return f.fitted(d, samples, pipelines.FunctionProfile{})
}

// fitted fits a model to calls and writes it; about is what is known besides.
func (f *profileFlags) fitted(d *Deps, samples []functions.Sample, about pipelines.FunctionProfile) error {
	profile, report, err := functions.Fit(samples, f.whole)
	if err != nil {
		return err
	}
	profile.Memory, profile.Calls = about.Memory, about.Calls
	if profile.GPU != nil && about.GPU != nil {
		profile.GPU.Thresholds, profile.GPU.MaxBatch = about.GPU.Thresholds, about.GPU.MaxBatch
	}
	text, err := profile.JSON()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d.Stderr, report.Describe()); err != nil {
		return err
	}
	if f.out == "" {
		_, err = d.Stdout.Write(text)
		return err
	}
	if err := osutil.ReplaceFile(f.out, text, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", f.out)
	return nil
}

// readCalls reads one measured call a line.
func readCalls(name string, r io.Reader) ([]functions.Sample, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w; a file of measured calls begins with the columns %s", name, err, strings.Join(callColumns, ","))
	}
	at := map[string]int{}
	for _, column := range callColumns {
		i := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), column) })
		if i < 0 {
			return nil, fmt.Errorf("%s:1: column %s is missing; a file of measured calls has the columns %s", name, column, strings.Join(callColumns, ","))
		}
		at[column] = i
	}
	var all []functions.Sample
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		number := func(column string) float64 {
			x, bad := strconv.ParseFloat(strings.TrimSpace(row[at[column]]), 64)
			if bad != nil && err == nil {
				line, place := rows.FieldPos(at[column])
				err = fmt.Errorf("%s:%d:%d: %q in column %s is not a number", name, line, place, row[at[column]], column)
			}
			return x
		}
		s := functions.Sample{
			Platform: functions.Platform(strings.ToLower(strings.TrimSpace(row[at["platform"]]))),
			Size:     number("size"), Batch: int(number("batch")), Seconds: number("latency_ms") / 1e3,
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}
