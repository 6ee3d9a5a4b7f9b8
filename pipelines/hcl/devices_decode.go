package hcl

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var hardwareSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "price"}, {Name: "memory"}, {Name: "count"}, {Name: "cores"}, {Name: "interruptions"}, {Name: "recovery"},
	{Name: "prices"}, {Name: "listed_as"}, {Name: "market"},
}}

func (d *decoder) hardware(b *hcl.Block) {
	_, _, attrs := d.block(b, hardwareSchema)
	if attrs == nil {
		return
	}
	h := pipelines.Hardware{Name: b.Labels[0]}
	d.number(attrs["price"], &h.Price)
	d.size(attrs["memory"], &h.Memory)
	d.integer(attrs["count"], &h.Count)
	d.integer(attrs["cores"], &h.Cores)
	d.number(attrs["interruptions"], &h.Interruptions)
	d.duration(attrs["recovery"], &h.Recovery)
	d.listed(b, attrs, &h)
	d.config.Document.Hardware = append(d.config.Document.Hardware, h)
}

// listed reads the price of a kind of hardware from the list that it names.
func (d *decoder) listed(b *hcl.Block, attrs hcl.Attributes, h *pipelines.Hardware) {
	list := attrs["prices"]
	if list == nil {
		if attrs["price"] == nil {
			d.report(files.Problem("Missing price", `Hardware has a price in money per hour, or takes it from a list: price = 0.5, or prices = "prices.csv".`, &b.DefRange))
		}
		for _, name := range []string{"listed_as", "market"} {
			if a := attrs[name]; a != nil {
				d.report(files.Problem("No price list", name+` says which price of a list is meant; name the list: prices = "prices.csv".`, ptr(a.Expr.Range())))
			}
		}
		return
	}
	h.Listed.Name = h.Name
	d.text(attrs["listed_as"], &h.Listed.Name)
	d.text(attrs["market"], &h.Listed.Market)
	if a := attrs["price"]; a != nil {
		d.report(files.Problem("Two prices", "The price stands on the list; give price or prices.", ptr(a.Expr.Range())))
		return
	}
	if d.file(list, b.DefRange.Filename, &h.Listed.File); h.Listed.File == "" {
		return // reported
	}
	if a := attrs["interruptions"]; a != nil {
		d.report(files.Problem("Two rates of interruptions", "How often a device is taken back stands on the price list; take interruptions out, or state the price here, too.", ptr(a.Expr.Range())))
		return
	}
	d.fromList(list, h)
}

func (d *decoder) fromList(a *hcl.Attribute, h *pipelines.Hardware) {
	src, ok := d.read(h.Listed.File, a, "price list", "A price list is CSV with the columns hardware,price and, for devices of the spot market, spot_price,interruptions.")
	if !ok {
		return
	}
	prices, diags := files.ReadPrices(h.Listed.File, src)
	d.diags = append(d.diags, diags...)
	if !diags.HasErrors() {
		d.diags = append(d.diags, prices.Set(h, ptr(a.Expr.Range()))...)
	}
}

var clusterSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "hardware", Required: true}, {Name: "devices"}, {Name: "dispatch"}, {Name: "pipelines", Required: true},
}}

func (d *decoder) cluster(b *hcl.Block) {
	path, _, attrs := d.block(b, clusterSchema)
	if attrs == nil {
		return
	}
	c := pipelines.Cluster{Name: b.Labels[0]}
	d.text(attrs["hardware"], &c.Hardware)
	d.text(attrs["dispatch"], &c.Dispatch)
	d.texts(attrs["pipelines"], &c.Pipelines)
	if a := attrs["pipelines"]; a != nil {
		if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() {
			for i, one := range list {
				d.place(path+".pipelines."+strconv.Itoa(i), one.Range())
			}
		}
	}
	if a := attrs["devices"]; a != nil {
		d.devices(a, &c.Devices)
	}
	d.config.Document.Clusters = append(d.config.Document.Clusters, c)
}

// devices reads a number, or { min = 2, max = 64 }.
func (d *decoder) devices(a *hcl.Attribute, to *pipelines.Range) {
	v, diags := a.Expr.Value(d.ctx)
	if !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.Type().IsObjectType() {
		kind := cty.Object(map[string]cty.Type{"min": cty.Number, "max": cty.Number})
		v, ok := d.value(a, kind, "a number of devices, or { min = 2, max = 64 }")
		if !ok {
			return
		}
		for name, field := range map[string]*int{"min": &to.Min, "max": &to.Max} {
			d.integer(&hcl.Attribute{Name: name, Expr: hcl.StaticExpr(v.GetAttr(name), a.Expr.Range())}, field)
		}
		return
	}
	d.integer(a, &to.Min)
	to.Max = to.Min
}
