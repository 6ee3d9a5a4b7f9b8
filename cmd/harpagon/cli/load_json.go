package cli

import (
	"encoding/json"
	"io"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/wire"
)

// loadRow is what came of the requests to one service. Sent is the sum of the
// outcomes.
type loadRow struct {
	Service    string            `json:"service"`
	Offered    float64           `json:"offered"` // requests per second
	Sent       int               `json:"sent"`
	Unsent     int               `json:"unsent"`    // left out, because the generator was behind its schedule
	Completed  int               `json:"completed"` // in time
	Late       int               `json:"late"`
	Dropped    int               `json:"dropped"`    // given up, since the deadline could no longer be met
	Refused    int               `json:"refused"`    // at once, by a bounded queue
	Failed     int               `json:"failed"`     // for any other reason
	Unanswered int               `json:"unanswered"` // when the generator stopped waiting
	Wrong      int               `json:"wrong"`      // answers that differ from what was to be expected, where that is known
	Attainment float64           `json:"attainment"`
	Reasons    map[string]string `json:"reasons,omitempty"` // what the first error of each code says
	LatencyMS  histogram.MS      `json:"latency_ms"`
}

func newLoadRow(r *load.Report) loadRow {
	row := loadRow{
		Service: r.Pipeline, Offered: r.Offered, Sent: r.Requests, Unsent: r.Unsent, Completed: r.Completed, Late: r.Late, Reasons: r.Reasons, Attainment: r.Attainment,
		LatencyMS: r.Latency.MS(),
	}
	for code, n := range r.Errors {
		switch wire.Code(code) {
		case wire.CodeDeadline:
			row.Dropped += n
		case wire.CodeOverloaded:
			row.Refused += n
		default:
			row.Failed += n
		}
	}
	row.Unanswered = row.Sent - row.Completed - row.Late - row.Dropped - row.Refused - row.Failed
	return row
}

// writeLoads prints the loads beside the fields of whole, which has more to say.
func writeLoads(to io.Writer, whole any, reports []*load.Report) error {
	raw, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	rows := make([]loadRow, len(reports))
	for i, r := range reports {
		rows[i] = newLoadRow(r)
	}
	all["loads"] = rows
	return writeJSON(to, all)
}
