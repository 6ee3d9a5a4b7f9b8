package grouping

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// counted reads the file of a trace (see readCounts).
func counted(file string) ([][]float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the trace cannot be read: %w", err)
	}
	defer f.Close()
	return readCounts(file, f)
}

// readCounts reads requests per second, minute by minute, from the counts of many
// functions, as the Azure Functions trace has them: a line for each function, and a
// column for each minute, whose name is the minute's number; other columns are passed
// over. Of the functions those are taken whose mean rates are nearest, in ratio, to
// those of the paper's applications.
func readCounts(name string, r io.Reader) ([][]float64, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the first line of a trace names its columns, minutes by their numbers", name, err)
	}
	var columns []int
	for i, s := range header {
		if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > 0 && len(columns) < minutes {
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%s:1: no column is named by a minute's number", name)
	}
	near := make([][]float64, len(means())) // rates of the nearest by application
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rates := make([]float64, len(columns))
		for k, i := range columns {
			n, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			if err != nil || n < 0 || n > 1e9 {
				line, at := rows.FieldPos(i)
				return nil, fmt.Errorf("%s:%d:%d: %q is no count of requests", name, line, at, row[i])
			}
			rates[k] = n / 60
		}
		place(near, rates)
	}
	if slices.ContainsFunc(near, func(r []float64) bool { return r == nil }) {
		return nil, fmt.Errorf("%s: too few functions have requests; the experiment takes %d", name, len(near))
	}
	all := make([][]float64, len(columns))
	for k := range all {
		for _, r := range near {
			all[k] = append(all[k], r[k])
		}
	}
	return all, nil
}

// place gives a function to the application that it is nearest to, and the one that it
// displaces to another.
func place(near [][]float64, rates []float64) {
	for rates != nil && mean(rates) > 0 {
		best := -1
		for i := range near {
			if off(rates, i) < off(near[i], i) && (best < 0 || off(rates, i) < off(rates, best)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		near[best], rates = rates, near[best]
	}
}

// off is by which ratio a function's mean rate differs from that of an application.
func off(rates []float64, application int) float64 {
	if rates == nil {
		return math.Inf(1)
	}
	return math.Abs(math.Log(mean(rates) / means()[application]))
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
