package cli

import (
	"slices"
	"strings"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/experiments"
)

// across is how many panels stand in a row of a picture, at most.
const across = 4

// drawn makes the picture of a figure: a panel for each group of its rows.
func drawn(f *experiments.Figure, r experiments.Result) chart.Picture {
	var panels []chart.Panel
	var systems []string
	for _, row := range r.Rows {
		x, ok := row.Setting.Number(f.Picture.X)
		if !ok || row.Metric != f.Picture.Metric {
			continue
		}
		if !slices.Contains(systems, row.System) {
			systems = append(systems, row.System)
		}
		panel := panelOfRow(&panels, f.Picture, &row)
		line := lineOf(panel, row.System, slices.Index(systems, row.System))
		line.Points = append(line.Points, chart.Point{X: x, Y: max(row.Ours, leastShown)})
	}
	wide := min(across, len(panels))
	for wide > 1 && len(panels)%wide != 0 {
		wide--
	}
	var rows [][]chart.Panel
	for row := range slices.Chunk(panels, max(1, wide)) {
		rows = append(rows, row)
	}
	return chart.Picture{Title: f.Title, Footer: f.Picture.Footer, Rows: rows}
}

// leastShown is the least value on a logarithmic axis.
const leastShown = 0.001

// panelOfRow finds the panel that a row belongs to, or adds it.
func panelOfRow(panels *[]chart.Panel, p *experiments.Picture, row *experiments.Row) *chart.Panel {
	var words []string
	for _, name := range p.Panel {
		words = append(words, strings.ReplaceAll(name, "_", " ")+" "+row.Setting.Text(name))
	}
	title := strings.Join(words, ", ")
	if len(p.Panel) == 1 && p.Panel[0] == "group" {
		title = row.Setting.Text("group")
	}
	k := slices.IndexFunc(*panels, func(c chart.Panel) bool { return c.Title == title })
	if k < 0 {
		k = len(*panels)
		label := row.Metric
		if row.Unit != "" {
			label += " in " + row.Unit
		}
		*panels = append(*panels, chart.Panel{Title: title, XLabel: strings.ReplaceAll(p.X, "_", " "), YLabel: label, LogX: p.LogX, LogY: p.LogY})
	}
	return &(*panels)[k]
}

// lineOf finds the line of a system, or adds it.
func lineOf(panel *chart.Panel, system string, colour int) *chart.Line {
	k := slices.IndexFunc(panel.Lines, func(l chart.Line) bool { return l.Name == system })
	if k < 0 {
		k = len(panel.Lines)
		panel.Lines = append(panel.Lines, chart.Line{Name: system, Colour: colour})
	}
	return &panel.Lines[k]
}
