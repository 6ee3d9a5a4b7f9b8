package cores

import (
	"fmt"
	"testing"
)

// BenchmarkCurve goes over models and executors. One model has one
// worker only; and in small pools a run through workers mostly waits for its
// clock, since few requests are under way: there it is left out.
func BenchmarkCurve(b *testing.B) {
	for _, policy := range []string{"adaptive", "deferred"} {
		for _, models := range []int{1, 8, 64, 1024} {
			for _, executors := range []int{1, 64, 1000, 4096} {
				s := Setting{Policy: policy, Models: models, Executors: executors}
				at := fmt.Sprintf("%s/models=%d/executors=%d", policy, models, executors)
				b.Run(at+"/step", func(b *testing.B) { bench(b, s, Step) })
				if executors < 1000 || models == 1 {
					continue
				}
				s.Workers = 2
				b.Run(at+"/workers=2", func(b *testing.B) { bench(b, s, Run) })
			}
		}
	}
}
