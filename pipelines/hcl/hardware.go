package hcl

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var hardwareBlock = block[pipelines.Hardware]{
	kind: "hardware",
	attributes: []attribute[pipelines.Hardware]{
		attr("price", number, func(h *pipelines.Hardware) *float64 { return &h.Price },
			`money per hour of one whole device, above zero`).noted("this or 'prices'").
			printedWhen(func(h *pipelines.Hardware) bool { return h.Listed.File == "" }),
		attr("prices", file, func(h *pipelines.Hardware) *string { return &h.Listed.File },
			`a price list: [CSV](../reference/hardware.md#price-lists)`).noted("this or 'price'"),
		attr("listed_as", text, func(h *pipelines.Hardware) *string { return &h.Listed.Name },
			`the name by which the list has it; its own name without it`).
			printedWhen(func(h *pipelines.Hardware) bool { return h.Listed.File != "" && h.Listed.Name != h.Name }),
		attr("market", text, func(h *pipelines.Hardware) *string { return &h.Listed.Market },
			`of the list's prices: '"on-demand"' (default) or '"spot"'`).
			printedWhen(func(h *pipelines.Hardware) bool { return h.Listed.File != "" && h.Listed.Market != "" }),
		attr("interruptions", number, func(h *pipelines.Hardware) *float64 { return &h.Interruptions },
			`how often one device is taken back by its owner, per hour: 20 % a month are '0.0003'. With 'market = "spot"' the list has it. See [planning](../explanation/planning.md#devices-that-are-taken-back)`).
			printedWhen(func(h *pipelines.Hardware) bool { return h.Listed.File == "" && h.Interruptions != 0 }),
		attr("recovery", duration, func(h *pipelines.Hardware) *time.Duration { return &h.Recovery },
			`how long until another device serves in its place: noticing, renting, starting a worker, loading models. '"5m"' without it`),
		attr("memory", size, func(h *pipelines.Hardware) *int64 { return &h.Memory },
			`of one device, such as '"16GiB"'`),
		attr("count", integer, func(h *pipelines.Hardware) *int { return &h.Count },
			`how many exist; no limit without it`),
		attr("cores", integer, func(h *pipelines.Hardware) *int { return &h.Cores },
			`of a kind that is an instance: processor cores of one device. 'harpagon up' deals this machine's cores out to such kinds`),
	},
	name:   func(h *pipelines.Hardware) *string { return &h.Name },
	finish: (*decoder).listed,
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
				d.report(files.Problem("No price list", name+` chooses a price of a list; name the list: prices = "prices.csv".`, ptr(a.Expr.Range())))
			}
		}
		h.Listed = pipelines.Listing{}
		return
	}
	if h.Listed.Name == "" {
		h.Listed.Name = h.Name
	}
	if a := attrs["price"]; a != nil {
		d.report(files.Problem("Two prices", "The list has the price; give price or prices.", ptr(a.Expr.Range())))
		h.Listed.File = ""
	}
	if h.Listed.File == "" {
		return // reported
	}
	if a := attrs["interruptions"]; a != nil {
		d.report(files.Problem("Two rates of interruptions", "The price list has how often a device is taken back; take interruptions out, or give price in place of prices.", ptr(a.Expr.Range())))
		return
	}
	src, ok := d.read(h.Listed.File, list, "price list", "A price list is CSV with the columns hardware,price and, for devices of the spot market, spot_price,interruptions.")
	if !ok {
		return
	}
	prices, diags := files.ReadPrices(h.Listed.File, src)
	d.diags = append(d.diags, diags...)
	if !diags.HasErrors() {
		d.diags = append(d.diags, prices.Set(h, ptr(list.Expr.Range()))...)
	}
}

var clusterBlock = block[pipelines.Cluster]{
	kind: "cluster",
	attributes: []attribute[pipelines.Cluster]{
		attr("hardware", text, func(c *pipelines.Cluster) *string { return &c.Hardware },
			`the kind of its devices`).required(),
		attr("devices", devices, func(c *pipelines.Cluster) *pipelines.Range { return &c.Devices },
			`a number, or '{ min = 2, max = 64 }'; left out, as many as it needs`),
		attr("dispatch", text, func(c *pipelines.Cluster) *string { return &c.Dispatch },
			firstIsDefault(pipelines.Dispatches(pipelines.KindCluster))+`, with [variants](../explanation/dispatching.md#which-policy-when) after a colon`),
		attr("pipelines", members, func(c *pipelines.Cluster) *[]string { return &c.Pipelines },
			`names of pipelines, each in one cluster at most`).required(),
	},
	name: func(c *pipelines.Cluster) *string { return &c.Name },
}

// members are names of pipelines, and where each of them stands.
var members = codec[[]string]{
	func(d *decoder, a *hcl.Attribute, to *[]string) {
		d.texts(a, to)
		if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() {
			for i, one := range list {
				d.place(d.path+"."+strconv.Itoa(i), one.Range())
			}
		}
	},
	texts.print,
}

// devices are a number, or { min = 2, max = 64 }.
var devices = codec[pipelines.Range]{
	func(d *decoder, a *hcl.Attribute, to *pipelines.Range) {
		v, diags := a.Expr.Value(d.ctx)
		if diags.HasErrors() || !v.IsWhollyKnown() || v.IsNull() || !v.Type().IsObjectType() {
			d.integer(a, &to.Min)
			to.Max = to.Min
			return
		}
		kind := cty.Object(map[string]cty.Type{"min": cty.Number, "max": cty.Number})
		v, ok := d.value(a, kind, "a number of devices, or { min = 2, max = 64 }")
		if !ok {
			return
		}
		for name, field := range map[string]*int{"min": &to.Min, "max": &to.Max} {
			d.integer(&hcl.Attribute{Name: name, Expr: hcl.StaticExpr(v.GetAttr(name), a.Expr.Range())}, field)
		}
	},
	func(r pipelines.Range) hclwrite.Tokens {
		if r.Min == r.Max {
			return literal(cty.NumberIntVal(int64(r.Min)))
		}
		return hclwrite.TokensForIdentifier(fmt.Sprintf("{ min = %d, max = %d }", r.Min, r.Max))
	},
}
