package check

import "github.com/harpagon/harpagon/pipelines"

// planning reports what is wrong with how a service is planned.
func (v *validator) planning(p pipelines.Planning, k pipelines.Kind, path string) {
	for _, f := range p.Faults(k) {
		v.errorf(path+pipelines.PlanPath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}

// update reports what is wrong with how changes are carried out.
func (v *validator) update(u pipelines.Update, path string) {
	if u.IsZero() && !v.declared(path+pipelines.UpdatePath) {
		return
	}
	for _, f := range u.Faults() {
		v.errorf(path+pipelines.UpdatePath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}
