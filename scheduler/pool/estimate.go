package pool

// rates are the throughputs that the paper's estimate of a configuration is
// made of (table of section 5.2), in queries per second.
type rates struct {
	Base      float64   // Q_b: one base instance that serves all sizes
	Large     float64   // Q_b^{s+}: one base instance that serves only what the others cannot
	Auxiliary []float64 // Q_a^i: one instance of each auxiliary type, for the sizes below s'
	Share     float64   // f': queries of the sizes below s', which the strongest auxiliary type serves
}

// Estimate is the throughput of base instances and auxiliary instances
// together, by Eq. 14 and 15:
//
//	C = (1-f')/f' · sum of v_i·Q_a^i
//	QPSmax = u·Q_b^{s+} / (1-f')                                         if u·Q_b^{s+} <= C
//	QPSmax = sum of v_i·Q_a^i / f'  +  (1 - C/(u·Q_b^{s+})) · u·Q_b      otherwise
//
// Without auxiliary instances it is u·Q_b. Where the auxiliary types serve all
// sizes, no query needs the base, and both add up.
func (r rates) Estimate(base int, auxiliary []int) float64 {
	u, sum := float64(base), 0.0
	for i, v := range auxiliary {
		sum += float64(v) * r.Auxiliary[i]
	}
	switch {
	case sum == 0 || r.Share <= 0:
		return u * r.Base
	case r.Share >= 1:
		return sum + u*r.Base
	}
	offloaded := sum * (1 - r.Share) / r.Share
	if large := u * r.Large; large > offloaded {
		return sum/r.Share + (large-offloaded)/large*u*r.Base
	}
	return u * r.Large / (1 - r.Share)
}

// estimate is the paper's estimate of a configuration of the market. The
// auxiliary type that serves the largest sizes sets s' and f'; all others are
// taken to serve as much.
func (m *market) estimate(counts []int) float64 {
	reach := 0
	for g, n := range counts {
		if n > 0 && g != m.base {
			reach = max(reach, m.kinds[g].serves)
		}
	}
	all := len(m.sizes)
	r := rates{Base: m.throughput(m.base, 0, all), Large: m.throughput(m.base, reach, all), Share: m.share(reach)}
	if reach == all {
		r.Share = 1
	}
	var auxiliary []int
	for g, n := range counts {
		if g != m.base {
			auxiliary = append(auxiliary, n)
			r.Auxiliary = append(r.Auxiliary, m.throughput(g, 0, max(reach, 1)))
		}
	}
	if reach == 0 {
		r.Share = 0 // no auxiliary instance serves anything
	}
	return r.Estimate(counts[m.base], auxiliary)
}
