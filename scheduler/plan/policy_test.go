package plan_test

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

const second = time.Second

var (
	// asPaper plans as the Harpagon paper does.
	asPaper    = plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional}
	exactWhole = plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostWhole}
)

func named(o plan.Options) plan.Policy {
	by, err := policies.Of(o)
	if err != nil {
		panic(err)
	}
	return by
}
