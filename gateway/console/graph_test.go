package console

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// Edges lead from a box to a box, and past all others.
func TestEdgesGoAroundBoxes(t *testing.T) {
	module := func(name string, from ...string) pipelines.Module {
		m := pipelines.Module{Name: name}
		for _, f := range from {
			m.Inputs = append(m.Inputs, pipelines.Binding{From: pipelines.Ref{Module: f, Port: "y"}})
		}
		return m
	}
	p := pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{
		module("a"), module("b", "a"), module("c", "b"), module("d", "a", "b", "c"), module("e", "a"), module("f", "e", "d", "a"), module("g", "f", "a"),
	}}
	var views []moduleView
	for _, m := range p.Modules {
		views = append(views, moduleView{Name: m.Name})
	}
	drawn := string(drawGraph(p, views))
	var boxes [][2]float64
	for _, at := range regexp.MustCompile(`translate\((\d+) (\d+)\)`).FindAllStringSubmatch(drawn, -1) {
		boxes = append(boxes, [2]float64{number(t, at[1]), number(t, at[2])})
	}
	require.Len(t, boxes, len(p.Modules))
	edges := regexp.MustCompile(`class="edge" d="([^"]+)"`).FindAllStringSubmatch(drawn, -1)
	require.Len(t, edges, 11)
	bottom := number(t, regexp.MustCompile(`viewBox="-2 -2 \d+ (\d+)"`).FindStringSubmatch(drawn)[1]) - 4
	for _, e := range edges {
		for _, at := range along(t, e[1]) {
			assert.LessOrEqual(t, at[1], bottom, "within the picture")
			for _, box := range boxes {
				within := at[0] > box[0] && at[0] < box[0]+boxWidth && at[1] > box[1] && at[1] < box[1]+boxHeight
				require.False(t, within, "the edge %s passes %v through the box at %v", e[1], at, box)
			}
		}
	}
}

// along are points of a path of moves, curves and horizontal lines.
func along(t *testing.T, path string) (all [][2]float64) {
	var at [2]float64
	for _, part := range regexp.MustCompile(`([MCH])([^MCH]+)`).FindAllStringSubmatch(path, -1) {
		var n []float64
		for _, text := range strings.Fields(part[2]) {
			n = append(n, number(t, text))
		}
		from := at
		for i := range 101 {
			s := float64(i) / 100
			switch part[1] {
			case "M":
				at = [2]float64{n[0], n[1]}
			case "H":
				at = [2]float64{from[0] + s*(n[0]-from[0]), from[1]}
			case "C":
				for k := range at {
					at[k] = (1-s)*(1-s)*(1-s)*from[k] + 3*(1-s)*(1-s)*s*n[k] + 3*(1-s)*s*s*n[2+k] + s*s*s*n[4+k]
				}
			}
			all = append(all, at)
		}
	}
	return all
}

func number(t *testing.T, text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}
