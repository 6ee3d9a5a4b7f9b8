package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func picture() Picture {
	var lines []Line
	for i, name := range []string{"exact", "harpagon", "nexus", "inferline"} {
		l := Line{Name: name, Colour: i}
		for k := range 40 {
			x := float64(50 + 10*k)
			l.Points = append(l.Points, Point{X: x, Y: float64(2+i%3) * (1 + 90/(x-30)), Gap: k < 4*i, Dashed: i == 3 || i == 1 && k < 20})
		}
		lines = append(lines, l)
	}
	panel := Panel{Title: "Cost over SLO", XLabel: "SLO in ms", YLabel: "cost per hour", Lines: lines,
		Mark: &Mark{X: 200, Name: "declared"}, Shade: []Shaded{{From: 0, To: 90, Name: "no plan"}}}
	return Picture{Title: "traffic", Footer: "dashed: cannot be kept", Rows: [][]Panel{{panel, panel}}}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture().Write(&b, "a.PNG"))
	img, err := png.Decode(&b)
	require.NoError(t, err)
	assert.Greater(t, img.Bounds().Dx(), img.Bounds().Dy())

	b.Reset()
	require.NoError(t, picture().Write(&b, "a.svg"))
	for _, text := range []string{"traffic", "inferline", "no plan", "declared", "cost per hour"} {
		assert.Contains(t, b.String(), ">"+text+"<")
	}
	assert.Contains(t, b.String(), "sans-serif")
	for d := xml.NewDecoder(&b); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	require.NoError(t, picture().Write(&a, "a.svg"))
	require.NoError(t, picture().Write(&b, "b.svg"))
	assert.Equal(t, a.String(), b.String())
}

func TestWriteRefuses(t *testing.T) {
	assert.ErrorContains(t, picture().Write(io.Discard, "a.gif"), ".svg or .png")
	assert.ErrorContains(t, Check("picture"), "end the name in")
	assert.Error(t, Picture{}.Write(io.Discard, "a.svg"))
	empty := picture()
	for i := range empty.Rows[0] {
		empty.Rows[0][i].Lines = nil
	}
	assert.ErrorContains(t, empty.Write(io.Discard, "a.svg"), "nothing to draw")
}

func TestRuns(t *testing.T) {
	solid, dashed, gap := Point{}, Point{Dashed: true}, Point{Gap: true}
	for _, c := range []struct {
		name   string
		points []Point
		want   []int // points of each run, negative when dashed
	}{
		{"none", nil, nil},
		{"one", []Point{solid}, []int{1}},
		{"solid", []Point{solid, solid, solid}, []int{3}},
		{"a gap", []Point{solid, solid, gap, solid}, []int{2, 1}},
		{"turns", []Point{solid, solid, dashed, dashed, solid, solid}, []int{2, -4, 2}},
		{"begins dashed", []Point{dashed, solid, solid}, []int{-2, 2}},
		{"alone and dashed", []Point{gap, dashed, gap}, []int{-1}},
	} {
		var got []int
		for _, r := range runs(c.points) {
			n := len(r.points)
			if r.dashed {
				n = -n
			}
			got = append(got, n)
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

func TestSpread(t *testing.T) {
	all := []name{{text: "a", y: 5}, {text: "b", y: 5}, {text: "c", y: 99}, {text: "d", y: 100}}
	spread(all, 10, 0, 100)
	for i := range all {
		if i > 0 {
			assert.GreaterOrEqual(t, all[i].y-all[i-1].y, all[0].y*0+10)
		}
		assert.LessOrEqual(t, all[i].y, all[0].y*0+100)
	}
	assert.Equal(t, "a", all[0].text)
}

func TestRoundTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 1}, {0, 7.3}, {45, 460}, {0, 0.02}, {100, 12000}} {
		n := len(round{}.Ticks(c[0], c[1]))
		assert.True(t, n >= 3 && n <= 8, "%v: %d ticks", c, n)
	}
}

func ExamplePicture_Write() {
	line := Line{Name: "exact", Points: []Point{{X: 100, Y: 5}, {X: 200, Y: 4}, {X: 300, Y: 3.8}}}
	p := Picture{
		Title: "traffic",
		Rows:  [][]Panel{{{Title: "cost over SLO", XLabel: "SLO in ms", YLabel: "cost per hour", Lines: []Line{line}}}},
	}
	var b bytes.Buffer
	fmt.Println(p.Write(&b, "costs.svg"), bytes.HasPrefix(b.Bytes(), []byte("<?xml")))
	fmt.Println(p.Write(&b, "costs.bmp"))
	// Output:
	// <nil> true
	// costs.bmp is no picture; end the name in .svg or .png
}

func BenchmarkWriteSVG(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if err := picture().Write(io.Discard, "a.svg"); err != nil {
			b.Fatal(err)
		}
	}
}
