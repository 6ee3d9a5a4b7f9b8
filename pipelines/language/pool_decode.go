package language

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var poolSchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "profile", Required: true}, {Name: "sizes"}, {Name: "slo", Required: true},
		{Name: "budget", Required: true}, {Name: "base", Required: true}, {Name: "hardware"}, {Name: "arrivals"},
	},
	Blocks: []hcl.BlockHeaderSchema{planBlock},
}

func (d *decoder) pool(b *hcl.Block) {
	path, content, attrs := d.block(b, poolSchema)
	if attrs == nil {
		return
	}
	p := pipelines.Pool{Name: b.Labels[0]}
	for _, block := range content.Blocks {
		d.planning(path, block, &p.Plan)
	}
	d.duration(attrs["slo"], &p.SLO)
	d.number(attrs["budget"], &p.Budget)
	d.text(attrs["base"], &p.Base)
	d.texts(attrs["hardware"], &p.Hardware)
	d.text(attrs["arrivals"], &p.Arrivals)
	d.file(attrs["profile"], b.DefRange.Filename, &p.ProfileFile)
	d.file(attrs["sizes"], b.DefRange.Filename, &p.SizesFile)
	if p.ProfileFile != "" {
		d.poolProfile(&p, attrs["profile"])
	}
	if p.SizesFile != "" {
		d.poolSizes(&p, path, attrs["sizes"])
	}
	d.config.Document.Pools = append(d.config.Document.Pools, p)
}

func (d *decoder) poolProfile(p *pipelines.Pool, a *hcl.Attribute) {
	src, ok := d.read(p.ProfileFile, a, "profile", "The profile of a pool says how long a query takes by its size: hardware,batch,duration_ms.")
	if !ok {
		return
	}
	points, diags := files.ReadProfile(p.ProfileFile, src)
	for _, diag := range diags {
		if diag.Severity == hcl.DiagError { // noise matters to batches that could be padded, not to queries
			d.diags = append(d.diags, diag)
		}
	}
	p.Profile.Points = points
}

func (d *decoder) poolSizes(p *pipelines.Pool, path string, a *hcl.Attribute) {
	src, ok := d.read(p.SizesFile, a, "sizes", "A file of sizes says how often queries have which size: size,weight.")
	if !ok {
		return
	}
	mix, lines, diags := files.ReadSizesAt(p.SizesFile, src)
	d.diags = append(d.diags, diags...)
	p.Sizes = mix
	for size, at := range lines {
		d.place(path+".sizes."+strconv.Itoa(size), at)
	}
}
