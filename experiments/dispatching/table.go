package dispatching

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is a setting with what the policies did in it.
type Row struct {
	Part      string     `json:"part"`
	Setting   string     `json:"setting"`
	Devices   int        `json:"devices"`
	Staggered float64    `json:"staggered_rate,omitempty"` // table 4: the bound of the paper
	Physical  float64    `json:"physical_rate,omitempty"`  // table 4: Physical
	Policies  []Measured `json:"policies"`
}

// Of is what a policy did; zero where it was not measured.
func (r *Row) Of(policy string) Measured {
	for _, m := range r.Policies {
		if m.Policy == policy {
			return m
		}
	}
	return Measured{}
}

// Over is the goodput of the first policy over that of the second, 0 where one
// of them has none.
func (r *Row) Over(first, second string) float64 {
	if under := r.Of(second).Goodput; under > 0 {
		return r.Of(first).Goodput / under
	}
	return 0
}

// Table is one part.
type Table struct {
	Part     string   `json:"part"`
	Title    string   `json:"title"`
	Policies []string `json:"policies"`
	Rows     []Row    `json:"rows"`
}

// Title says what a part is about.
func Title(part string) string {
	switch part {
	case PartTable4:
		return "Two networks on 8 devices, Poisson arrivals, ten seeds (Symphony, table 4)"
	case PartNetworks:
		return "Every network alone on 8 devices, Poisson arrivals (Symphony, tables 5 and 6)"
	case PartMixed:
		return "All networks together, Poisson arrivals"
	case PartBursts:
		return "From Poisson arrivals to bursts: gamma gaps"
	case PartDevices:
		return "From one device to a thousand: ResNet50, SLO 50 ms, Poisson arrivals"
	case PartModels:
		return "A rising number of models on 32 devices: ResNet50, SLO 50 ms, Poisson arrivals"
	}
	return part
}

// cells are the table as text: a head and the rows.
func (t *Table) cells() (head []string, rows [][]string) {
	head = append([]string{"setting"}, t.Policies...)
	compare := slices.Contains(t.Policies, adaptive) && slices.Contains(t.Policies, deferred)
	if compare {
		head = append(head, "adaptive over deferred", "at 3 times that: adaptive", "deferred")
	}
	if t.Part == PartTable4 {
		head = append(head, "in turns", "adaptive of it", "deferred of it", "physical limit")
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		row := []string{r.Setting}
		for _, p := range t.Policies {
			row = append(row, rate(r.Of(p).Goodput))
		}
		if compare {
			row = append(row, ratio(r.Over(adaptive, deferred)), ratio(r.Of(adaptive).Overload), ratio(r.Of(deferred).Overload))
		}
		if t.Part == PartTable4 {
			row = append(row, rate(r.Staggered), ratio(r.Of(adaptive).Goodput/r.Staggered), ratio(r.Of(deferred).Goodput/r.Staggered), rate(r.Physical))
		}
		rows = append(rows, row)
	}
	return head, rows
}

const (
	adaptive = "adaptive"
	deferred = "deferred"
)

func rate(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r < 1000:
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

func ratio(r float64) string {
	if r == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", r)
}

// advantage is the goodput of adaptive over that of deferred, and the setting
// where it is least; all zero where one of them was not measured.
func (t *Table) advantage() (least, mean, most float64, where string) {
	n := 0.0
	for i := range t.Rows {
		over := t.Rows[i].Over(adaptive, deferred)
		if over == 0 {
			continue
		}
		if n == 0 || over < least {
			least, where = over, t.Rows[i].Setting
		}
		most = max(most, over)
		mean += over
		n++
	}
	if n > 0 {
		mean /= n
	}
	return least, mean, most, where
}

// Sum says in one line how adaptive stands to deferred; empty where one of them
// was not measured.
func (t *Table) Sum() string {
	least, mean, most, where := t.advantage()
	if mean == 0 {
		return ""
	}
	return fmt.Sprintf("Adaptive over deferred: %.3f on average, at most %.3f, at least %.3f (%s).", mean, most, least, where)
}

// Describe draws the table for terminals.
func (t *Table) Describe() string {
	head, rows := t.cells()
	var b strings.Builder
	b.WriteString(t.Title + ", goodput in requests per second\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	if sum := t.Sum(); sum != "" {
		b.WriteString(sum + "\n")
	}
	return b.String()
}

// Markdown writes the table for documents.
func (t *Table) Markdown() string {
	head, rows := t.cells()
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\nGoodput in requests per second.\n\n| %s |\n|---|%s\n", t.Title, strings.Join(head, " | "), strings.Repeat("---:|", len(head)-1))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	if sum := t.Sum(); sum != "" {
		b.WriteString("\n" + sum + "\n")
	}
	return b.String()
}
