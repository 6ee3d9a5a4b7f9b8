package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// everything is a gateway's metrics after at least one of everything has happened.
func everything() *metrics.Metrics {
	m := metrics.New()
	m.Registry().MustRegister(metrics.Devices(func() []devices.Reading {
		return []devices.Reading{{
			DeviceStatus: executors.DeviceStatus{Host: "h", Device: "gpu/0", Hardware: "h200", Capacity: 8, Memory: 4},
			GPU:          &devices.GPU{Name: "H200", Memory: 8, Used: 4, Utilisation: 0.5, Temperature: 40},
		}}
	}), metrics.Services(func() []placement.Deployment {
		return []placement.Deployment{{
			Pipeline: pipelines.Pipeline{Name: "p", Rate: 10, SLO: time.Second, Attainment: 0.99},
			Plan:     plan.Plan{Cost: 3.6, Sound: true, Expected: &plan.Expectation{Attainment: 0.995}},
		}}
	}), metrics.Trials(func() map[string]rollout.Seen { return map[string]rollout.Seen{"p": {Generation: 2}} }),
		metrics.Streams(func() map[string]admission.StreamShares {
			return map[string]admission.StreamShares{"p": {Open: 1, Most: 2}}
		}),
		metrics.Promises(func() map[string]autoscale.Broken {
			return map[string]autoscale.Broken{"p": {Cause: autoscale.Cause{Module: "m", Reason: autoscale.ReasonLate}}}
		}), metrics.DevicesWanted(func() map[string]int { return map[string]int{"cpu": 2} }))
	o := m.Observer()
	o.Installed(gateway.InstallInfo{Pipeline: "p", Generation: 1, Policies: map[string]string{"m": "tc"}})
	o.Attached(gateway.ExecutorInfo{Pipeline: "p", Module: "m"})
	o.RequestBegin(gateway.RequestInfo{Pipeline: "p"})
	o.RequestEnd(gateway.RequestInfo{Pipeline: "p", Caller: "alice", Outcome: gateway.Completed, Elapsed: 80 * time.Millisecond, Stages: []wire.Stage{{Module: "m", Items: 1, Compute: time.Millisecond}}})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Size: 4, Compute: time.Millisecond})
	o.BatchEnd(gateway.BatchInfo{Pipeline: "p", Module: "m", Err: &wire.Error{Code: wire.CodeUnavailable}})
	o.Dropped(gateway.DropInfo{Pipeline: "p", Module: "m", Reason: "late"})
	o.Exceeded(gateway.ExceedInfo{Pipeline: "p", Module: "m"})
	o.CallEnd(gateway.CallInfo{Function: "f", Group: "2 GB GPU", Ran: true, Cold: true, Again: 1, Billed: time.Second, Cost: 0.5})
	return m
}

// served are the names and labels of our own metrics.
func served(t *testing.T) map[string][]string {
	t.Helper()
	all, err := everything().Registry().Gather()
	require.NoError(t, err)
	names := map[string][]string{}
	for _, family := range all {
		if !strings.HasPrefix(family.GetName(), "harpagon_") {
			continue
		}
		labels := []string{}
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		names[family.GetName()] = labels
	}
	return names
}

func TestThePageNamesWhatIsServed(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	documented := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(harpagon_[a-z_]+)` \\| (counter|gauge|histogram) \\| ([a-z, ]+) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.Split(row[3], ", ")
		slices.Sort(labels)
		documented[row[1]] = labels
	}
	assert.Equal(t, served(t), documented, "docs/reference/metrics.md is the list that users rely on")
}

// names finds names of metrics in rules, and takes off what histograms add.
func names(text string) (all []string) {
	for _, name := range regexp.MustCompile(`harpagon_[a-z_]+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		all = append(all, name)
	}
	return all
}

func TestRulesAndDashboardUseWhatIsServed(t *testing.T) {
	known := served(t)
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "dashboard.json", "../../docs/reference/metrics.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := names(string(text))
		require.NotEmpty(t, found)
		for _, name := range found {
			assert.Contains(t, known, name, "%s uses a metric that nobody serves", file)
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for i, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, q := range dashboard.Panels[:i] {
			apart := p.GridPos.X >= q.GridPos.X+q.GridPos.W || q.GridPos.X >= p.GridPos.X+p.GridPos.W ||
				p.GridPos.Y >= q.GridPos.Y+q.GridPos.H || q.GridPos.Y >= p.GridPos.Y+p.GridPos.H
			require.True(t, apart, "%s lies on %s", p.Title, q.Title)
		}
	}
}

// tool finds a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s (Debian: prometheus)", name)
	}
	return path
}

func TestRulesKeepTheirTests(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, p := range dashboard.Panels {
		for j, target := range p.Targets {
			rules += fmt.Sprintf("  - record: p%d:%d\n    expr: %q\n", i, j, strings.ReplaceAll(target.Expr, "$service", ".*"))
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// A real Prometheus scrapes, with native histograms, and answers from them.
func TestPrometheusScrapesAGateway(t *testing.T) {
	prometheus := tool(t, "prometheus")
	gateway := httptest.NewServer(everything().Handler())
	defer gateway.Close()
	folder := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: harpagon\n  metrics_path: /\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(gateway.URL, "http://"))
	file := filepath.Join(folder, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	at, release, err := listen.Reserve("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	defer release()
	address := at.String()
	ctx, stop := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, prometheus, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--enable-feature=native-histograms")
	log, err := os.Create(filepath.Join(folder, "log"))
	require.NoError(t, err)
	defer log.Close()
	server.Stderr = log
	require.NoError(t, server.Start())
	defer func() { stop(); _ = server.Wait() }()
	for query, want := range map[string]string{
		`harpagon_requests_total{outcome="completed",pipeline="p"}`:                          "1",
		`harpagon_service_cost_per_hour{pipeline="p"}`:                                       "3.6",
		`histogram_count(harpagon_request_duration_seconds{pipeline="p"})`:                   "1",
		`histogram_quantile(1, harpagon_request_duration_seconds{pipeline="p"}) < bool 0.09`: "1",
	} {
		var got string
		for range 300 {
			if got = value(address, query); got == want {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		said, _ := os.ReadFile(log.Name())
		require.Equal(t, want, got, "%s\n%s", query, said)
	}
}

// value is the single answer to a query; empty while there is none.
func value(address, query string) string {
	r, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err != nil || json.Unmarshal(body, &answer) != nil || len(answer.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1])
}
