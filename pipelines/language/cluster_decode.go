package language

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
)

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
