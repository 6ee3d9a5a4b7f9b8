package language

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/files"
)

var planBlock = hcl.BlockHeaderSchema{Type: "plan"}

// planSchema has what the plan of any kind of service may say; the validator
// tells what does not fit the kind.
var planSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{
	{Name: "policy"}, {Name: "cost_model"}, {Name: "without"}, {Name: "split"}, {Name: "reading"},
	{Name: "concurrency"}, {Name: "allow_unsound"},
}}

// planning reads the plan block of a service.
func (d *decoder) planning(path string, b *hcl.Block, to *pipelines.Planning) {
	path += pipelines.PlanPath
	if earlier, taken := d.config.ranges[path]; taken {
		d.report(files.Problem("Declared twice", fmt.Sprintf("There is a plan block already at %s; a service has one.", earlier), &b.DefRange))
		return
	}
	d.place(path, b.DefRange)
	attrs := d.attributes(path, d.content(b.Body, planSchema))
	d.text(attrs["policy"], &to.Policy)
	d.text(attrs["cost_model"], &to.CostModel)
	d.texts(attrs["without"], &to.Without)
	d.text(attrs["split"], &to.Split)
	d.text(attrs["reading"], &to.Reading)
	d.boolean(attrs["concurrency"], &to.Concurrency)
	d.boolean(attrs["allow_unsound"], &to.AllowUnsound)
}

func (d *decoder) boolean(a *hcl.Attribute, to *bool) {
	if v, ok := d.value(a, cty.Bool, "true or false"); ok {
		*to = v.True()
	}
}
