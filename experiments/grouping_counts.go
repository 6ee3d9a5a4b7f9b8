package experiments

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
// applications: a column for each beside one that is named minute, and a line for each
// minute; or, as the Azure Functions trace has them, a line for each function and a
// column for each minute, whose name is the minute's number. Other columns are passed
// over there. Those are taken whose mean rates are nearest, in ratio, to those of the
// paper's applications.
func readCounts(name string, r io.Reader) ([][]float64, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the first line of a trace names its columns: minute and the applications, or minutes by their numbers", name, err)
	}
	named := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "minute") })
	var columns []int
	for i, s := range header {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if named >= 0 && i != named || named < 0 && err == nil && n > 0 && len(columns) < minutes {
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%s:1: no column is called minute, and none by a minute's number", name)
	}
	lines, err := perSecond(name, rows, columns)
	if err != nil {
		return nil, err
	}
	if named >= 0 {
		lines = transposed(lines[:min(len(lines), minutes)])
	}
	near := make([][]float64, len(printedMeans())) // rates of the nearest by application
	for _, rates := range lines {
		place(near, rates)
	}
	if slices.ContainsFunc(near, func(r []float64) bool { return r == nil }) {
		return nil, fmt.Errorf("%s: too few functions have requests; the experiment takes %d", name, len(near))
	}
	return transposed(near), nil
}

// perSecond reads the rates of all lines, from counts a minute.
func perSecond(name string, rows *csv.Reader, columns []int) (lines [][]float64, err error) {
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rates := make([]float64, len(columns))
		for k, i := range columns {
			n, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			if err != nil || !(n >= 0 && n <= 1e9) {
				line, at := rows.FieldPos(i)
				return nil, fmt.Errorf("%s:%d:%d: %q is no count of requests", name, line, at, row[i])
			}
			rates[k] = n / 60
		}
		lines = append(lines, rates)
	}
}

// transposed makes lines of columns.
func transposed(lines [][]float64) [][]float64 {
	if len(lines) == 0 {
		return nil
	}
	all := make([][]float64, len(lines[0]))
	for k := range all {
		for _, line := range lines {
			all[k] = append(all[k], line[k])
		}
	}
	return all
}

// place gives a function to the application that it is nearest to, and the one that it
// displaces to another.
func place(near [][]float64, rates []float64) {
	for rates != nil && meanOf(rates) > 0 {
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
	return math.Abs(math.Log(meanOf(rates) / printedMeans()[application]))
}

func meanOf(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
