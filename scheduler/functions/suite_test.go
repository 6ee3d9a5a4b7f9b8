package functions

import (
	"fmt"
	"math"
	"time"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/pipelines"
)

// ask makes a problem from pairs of objective (seconds) and rate.
func ask(pairs ...float64) Problem {
	f := pipelines.Function{Name: "vgg19", Provider: "cloud", Profile: published.VGG19()}
	for i := 0; i+1 < len(pairs); i += 2 {
		slo := time.Duration(math.Round(pairs[i] * 1e9))
		f.Applications = append(f.Applications, pipelines.Application{Name: fmt.Sprintf("app%d", i/2+1), SLO: slo, Rate: pairs[i+1]})
	}
	return Problem{Function: f, Provider: published.Cloud()}
}

// drawn is the i-th input of the random suite, of 2 to most applications.
func drawn(seed uint64, i, most int) Problem {
	f, p := published.DrawFunction(seed, i, most)
	return Problem{Function: f, Provider: p}
}
