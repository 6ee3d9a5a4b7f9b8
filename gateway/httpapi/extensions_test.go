package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
)

func TestRepositoryIndex(t *testing.T) {
	b := &backend{ready: true}
	h := New(b, Options{})
	require.JSONEq(t, `[{"name":"p","version":"4","state":"READY"}]`, post(h, "/v2/repository/index", "").Body.String())
	b.ready = false
	require.JSONEq(t, `[{"name":"p","version":"4","state":"UNAVAILABLE","reason":"no executor"}]`, post(h, "/v2/repository/index", `{"ready":false}`).Body.String())
	require.JSONEq(t, `[]`, post(h, "/v2/repository/index", `{"ready":true}`).Body.String())
	require.Equal(t, http.StatusBadRequest, post(h, "/v2/repository/index", `[`).Code)
}

func TestStatistics(t *testing.T) {
	code, _ := get(t, New(&backend{}, Options{}), "/v2/models/p/stats")
	require.Equal(t, http.StatusNotFound, code)
	seen := gateway.PipelineStatistics{
		Last: time.UnixMilli(5), Success: gateway.DurationStatistics{Count: 2, Total: 3}, Executed: 1,
		Batches: []gateway.BatchStatistics{{Size: 2, Compute: gateway.DurationStatistics{Count: 1, Total: 3}}},
	}
	h := New(&backend{}, Options{Statistics: func(string) gateway.PipelineStatistics { return seen }})
	for _, path := range []string{"/v2/models/stats", "/v2/models/p/stats", "/v2/models/p/versions/4/stats"} {
		code, body := get(t, h, path)
		require.Equal(t, http.StatusOK, code)
		none := `{"count":0,"ns":0}`
		require.JSONEq(t, `{"model_stats":[{"name":"p","version":"4","last_inference":5,"inference_count":2,"execution_count":1,
			"inference_stats":{"success":{"count":2,"ns":3},"fail":`+none+`,"queue":`+none+`,"compute_input":`+none+`,"compute_infer":`+none+`,"compute_output":`+none+`,"cache_hit":`+none+`,"cache_miss":`+none+`},
			"batch_stats":[{"batch_size":2,"compute_input":`+none+`,"compute_infer":{"count":1,"ns":3},"compute_output":`+none+`}]}]}`, body)
	}
	code, _ = get(t, h, "/v2/models/q/stats")
	require.Equal(t, http.StatusNotFound, code)
}
