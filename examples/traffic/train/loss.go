package main

import (
	"math"

	g "gorgonia.org/gorgonia"
)

// detectionLoss is the cross entropy of the score, weighted by masks[0], plus
// the squared error of the box, weighted by masks[1]. Both masks cover all
// channels and are zero where a term does not apply.
func detectionLoss(out, target *g.Node, masks [2]*g.Node) (*g.Node, error) {
	// softplus(x) - x·y, written as max(x, 0) - x·y + log(1 + exp(-|x|)) so
	// that no exponential can overflow.
	softplus := must(g.Log1p(must(g.Exp(must(g.Neg(must(g.Abs(out))))))))
	entropy := must(g.Add(must(g.Sub(must(g.Rectify(out)), must(g.HadamardProd(out, target)))), softplus))
	scores := must(g.Sum(must(g.HadamardProd(entropy, masks[0]))))
	boxes := must(g.Sum(must(g.HadamardProd(must(g.Square(must(g.Sub(out, target)))), masks[1]))))
	return g.Add(scores, boxes)
}

// classLoss is the cross entropy of a softmax; targets are one in the right
// class, times the share of the request in the loss.
func classLoss(out, target *g.Node, _ [2]*g.Node) (*g.Node, error) {
	p := must(g.SoftMax(out, 1))
	floor := g.NewConstant(float32(1e-7))
	logs := must(g.Log(must(g.Add(p, floor))))
	return g.Neg(must(g.Sum(must(g.HadamardProd(logs, target)))))
}

// rateAt is the learning rate of a step: a short rise, then half a cosine.
func rateAt(step, steps int, peak float64) float64 {
	const rise = 50
	if step < rise {
		return peak * float64(step+1) / rise
	}
	return peak * (0.02 + 0.98*0.5*(1+math.Cos(math.Pi*float64(step-rise)/float64(steps-rise))))
}
