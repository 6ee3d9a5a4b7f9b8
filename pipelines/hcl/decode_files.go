package hcl

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

// read is the content of a file that an attribute names, kept for the snippets of
// diagnostics. Where it cannot be read, hint says what such a file is.
func (d *decoder) read(path string, a *hcl.Attribute, what, hint string) ([]byte, bool) {
	src, err := osutil.ReadFile(path, osutil.MaxText)
	if err != nil {
		d.report(files.Problem("Missing "+what, fmt.Sprintf("%v. %s", err, hint), ptr(a.Expr.Range())))
		return nil, false
	}
	if d.config.meter.files += len(src); d.config.meter.files > maxFiles {
		d.report(files.Problem(tooComplex, fmt.Sprintf("The files that a declaration names have %d bytes together at most, each as often as it is named.", maxFiles), ptr(a.Expr.Range())))
		return nil, false
	}
	d.config.Files[path] = &hcl.File{Bytes: src}
	return src, true
}

// arrivals reads the attribute, and the trace that it names.
func (d *decoder) arrivals(a *hcl.Attribute, declaredIn string, p *pipelines.Pipeline) {
	d.text(a, &p.Arrivals)
	kind, _, file, err := pipelines.SplitArrivals(p.Arrivals)
	if err != nil || kind != pipelines.ArrivalsTrace {
		return // what is wrong is for validate to say
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(declaredIn), path)
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	p.Arrivals = pipelines.ArrivalsTrace + ":" + path
	src, ok := d.read(path, a, "trace", "A trace holds the number of requests in each second, one a line.")
	if !ok {
		return
	}
	trace, diags := files.ReadTrace(path, src)
	d.diags = append(d.diags, diags...)
	if len(trace.Seconds) > pipelines.MaxDeclaredTrace {
		d.report(files.Problem("Trace too long", fmt.Sprintf("The trace has %d lines; a declaration travels with its trace and takes %d. Keep the busiest hours of it.", len(trace.Seconds), pipelines.MaxDeclaredTrace), ptr(a.Expr.Range())))
		return
	}
	p.Trace = &trace
}

// attainment reads a share of requests; 0 asks for none.
func (d *decoder) attainment(a *hcl.Attribute, to *float64) {
	if a == nil {
		return
	}
	share := math.NaN()
	if d.number(a, &share); math.IsNaN(share) {
		return // reported
	}
	switch {
	case share < 0:
		d.report(files.Problem("Invalid attainment", "Attainment is a share between 0 and 1, such as 0.99; 0 asks for none.", ptr(a.Expr.Range())))
	case share == 0:
		*to = pipelines.NoAttainment
	default:
		*to = share
	}
}

// headroom reads a share of the objective: "10%", or 0.1.
func (d *decoder) headroom(a *hcl.Attribute, to **float64) {
	if a == nil {
		return
	}
	v, ok := d.value(a, cty.DynamicPseudoType, pipelines.HeadroomHint)
	if !ok {
		return
	}
	share := math.NaN()
	switch v.Type() {
	case cty.Number:
		share, _ = v.AsBigFloat().Float64()
	case cty.String:
		text, percent := strings.CutSuffix(strings.TrimSpace(v.AsString()), "%")
		if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && percent {
			share = x / 100
		}
	}
	if problemOf := pipelines.CheckHeadroom(share); problemOf != "" {
		d.report(files.Problem("Invalid headroom", problemOf, ptr(a.Expr.Range())))
		return
	}
	*to = &share
}

// profile reads the module's profile file.
func (d *decoder) profile(m *pipelines.Module, a *hcl.Attribute) {
	src, ok := d.read(m.ProfileFile, a, "profile", "Measure the module with harpagon profile, or take the attribute out to have it measured when it is applied.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(m.ProfileFile, src)
	d.diags = append(d.diags, diags...)
	m.Profile.Points = points
}

// sample reads the shape of the file that stands for a typical request.
func (d *decoder) sample(in *pipelines.Port, a *hcl.Attribute, folder string) {
	if d.file(a, folder, &in.Sample); in.Sample == "" {
		return
	}
	shape, err := files.SampleShape(*in, in.Sample)
	if err != nil {
		d.report(files.Problem("Unusable sample", err.Error()+".", ptr(a.Expr.Range())))
		return
	}
	in.Typical = shape
}

// typicals reads { name = [3, 640, 480], ... }.
func (d *decoder) typicals(a *hcl.Attribute, to *map[string][]int64) {
	v, ok := d.value(a, cty.Map(cty.List(cty.Number)), "an object with a shape for each input, such as { image = [3, 640, 480] }")
	if !ok {
		return
	}
	all := map[string][]int64{}
	for name, list := range v.AsValueMap() {
		all[name] = []int64{}
		for _, n := range list.AsValueSlice() {
			x, accuracy := n.AsBigFloat().Int64()
			if accuracy != 0 {
				d.report(files.Problem("Not a whole number", "The dimensions of a shape are whole numbers.", ptr(a.Expr.Range())))
				return
			}
			all[name] = append(all[name], x)
		}
	}
	*to = all
}
