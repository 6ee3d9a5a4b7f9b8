package pipelines

// planning reports what is wrong with how a service is planned.
func (v *validator) planning(p Planning, k Kind, path string) {
	for _, f := range p.Faults(k) {
		v.errorf(path+PlanPath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}

// update reports what is wrong with how changes are carried out.
func (v *validator) update(u Update, path string) {
	if u.IsZero() && !v.declared(path+UpdatePath) {
		return
	}
	for _, f := range u.Faults() {
		v.errorf(path+UpdatePath+"."+f.Attribute, f.Summary, "%s", f.Detail)
	}
}
