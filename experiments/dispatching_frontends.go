package experiments

import (
	"context"
	"fmt"
)

// frontendsFigure has a Nexus whose frontends deal requests out without knowing of each other
// (Symphony, section 3.3).
func frontendsFigure() Figure {
	return Figure{ID: "symphony/figure1", Title: "Nexus with several frontends (Symphony, figure 1)", Seconds: 300,
		Layout: Layout{Down: []string{"setting", "frontends"}, Across: []string{Metric}},
		Picture: &Picture{Metric: "over one frontend", Panel: []string{"setting"}, X: "frontends", LogX: true,
			Footer: "Simulated; 99 % of the requests in time."},
		Run: nexusFrontends}
}

func nexusFrontends(ctx context.Context, e *Env) (out Result, err error) {
	counts := []int{1, 2, 4, 8, 25}
	var list []DispatchSetting
	for _, of := range []struct {
		devices int
		models  []Network
		name    string
	}{
		{8, alike(1, 25), "1 ResNet50, SLO 25 ms"}, {8, alike(1, 100), "1 ResNet50, SLO 100 ms"},
		{64, alike(20, 50), "20 ResNet50, SLO 50 ms"}, {64, alike(20, 100), "20 ResNet50, SLO 100 ms"},
		{64, alike(1, 20), "1 ResNet50, SLO 20 ms"}, {64, a100(), "37 networks of the A100"},
	} {
		list = append(list, DispatchSetting{Name: fmt.Sprintf("%d devices, %s", of.devices, of.name), Models: of.models, Devices: of.devices, Shape: 1})
	}
	if e.Quick {
		list, counts = []DispatchSetting{list[0], list[3]}, []int{1, 8, 25}
	}
	policies := make([]string, len(counts))
	for k, n := range counts {
		policies[k] = fmt.Sprintf(ofFrontends, n)
	}
	policies[0] = "nexus"
	all, err := goodputs(ctx, e, "Frontends", list, policies)
	if err != nil {
		return out, err
	}
	for i, s := range list {
		alone := all[i][0].Goodput
		for k, n := range counts {
			at, reached := Set("setting", s.Name, "frontends", n), all[i][k].Goodput
			out.Add(at, "nexus", goodput, "1/s", reached)
			if k == len(counts)-1 {
				out.AddWithin(at, "nexus", "over one frontend", "", reached/alone, 0.6, 0.95)
			} else {
				out.Add(at, "nexus", "over one frontend", "", reached/alone)
			}
		}
	}
	out.Note("Requests come to any of the frontends, and each goes round the devices by itself. The paper prints losses of 5 to 40 %% for 8 to 64 devices, 1 to 37 networks and objectives of 20 to 100 ms; how many frontends lose so much is only in its plot, so the range stands beside the most that are tried.")
	return out, nil
}
