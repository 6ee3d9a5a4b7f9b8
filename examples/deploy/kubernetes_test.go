package deploy

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/harpagon/harpagon/executors/hosts"
	"github.com/harpagon/harpagon/wire/secure"
)

// serviceMonitor is what the chart uses of the Prometheus operator's kind.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Scheme        string `json:"scheme"`
			Authorization struct {
				Credentials core.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
			TLSConfig struct {
				CA struct {
					Secret core.SecretKeySelector `json:"secret"`
				} `json:"ca"`
				ServerName string `json:"serverName"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// scaledObject is what the chart uses of KEDA's kind.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  struct{ Kind, Name string } `json:"scaleTargetRef"`
		MinReplicaCount int                         `json:"minReplicaCount"`
		MaxReplicaCount int                         `json:"maxReplicaCount"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// kinds are those of the chart, as Kubernetes' own types.
func kinds() map[string]any {
	return map[string]any{
		"apps/v1 Deployment": new(apps.Deployment), "apps/v1 StatefulSet": new(apps.StatefulSet),
		"v1 Service": new(core.Service), "v1 PersistentVolumeClaim": new(core.PersistentVolumeClaim),
		"policy/v1 PodDisruptionBudget": new(policy.PodDisruptionBudget), "networking.k8s.io/v1 NetworkPolicy": new(networking.NetworkPolicy),
		"monitoring.coreos.com/v1 ServiceMonitor": new(serviceMonitor), "keda.sh/v1alpha1 ScaledObject": new(scaledObject),
		"v1 ConfigMap": new(core.ConfigMap),
	}
}

// helm runs helm, as .ci/run builds it of its Go module.
func helm(t *testing.T, args ...string) (string, error) {
	program, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("needs helm: go install helm.sh/helm/v4/cmd/helm@v4.3.2; .ci/run has it")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}

// rendered renders the chart with some values, and decodes it strictly: a field that
// Kubernetes does not have, or has of another type, is an error.
func rendered(t *testing.T, values string) (all []any) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	text, err := helm(t, "template", "rel", "chart", "--namespace", "space", "--values", file)
	require.NoError(t, err, text)
	documents := yamlv3.NewDecoder(strings.NewReader(text))
	for {
		var node map[string]any
		err := documents.Decode(&node)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err, text)
		if node == nil {
			continue
		}
		one, err := yaml.Marshal(node)
		require.NoError(t, err)
		kind := node["apiVersion"].(string) + " " + node["kind"].(string)
		into := kinds()[kind]
		require.NotNil(t, into, kind)
		require.NoError(t, yaml.UnmarshalStrict(one, into), "%s", one)
		all = append(all, into)
	}
}

// set is a controller of pods.
type set struct {
	name     string
	replicas int32
	selector map[string]string
	pod      core.PodTemplateSpec
	claims   []core.PersistentVolumeClaim
	service  string
}

func sets(all []any) (found []set) {
	for _, m := range all {
		switch m := m.(type) {
		case *apps.Deployment:
			found = append(found, set{name: m.Name, replicas: *m.Spec.Replicas, selector: m.Spec.Selector.MatchLabels, pod: m.Spec.Template})
		case *apps.StatefulSet:
			replicas := int32(1) // where something else scales it
			if m.Spec.Replicas != nil {
				replicas = *m.Spec.Replicas
			}
			found = append(found, set{m.Name, replicas, m.Spec.Selector.MatchLabels, m.Spec.Template, m.Spec.VolumeClaimTemplates, m.Spec.ServiceName})
		}
	}
	return found
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// Values to render the chart with, and which pods come of them.
func variants() map[string]struct {
	values string
	pods   []string
} {
	return map[string]struct {
		values string
		pods   []string
	}{
		"as it is": {"", []string{"rel-control", "rel-dispatcher", "rel-gateway", "rel-postgres", "rel-temporal", "rel-worker-cpu"}},
		"Temporal elsewhere by certificates": {`
temporal: {address: "temporal.other:7233"}
tls: {secret: certificates}
plaintext: false
tokens: {secret: users}
dispatcher: {replicas: 0}
gateway: {notice: 1m, service: {type: LoadBalancer, annotations: {a: b}}, args: ["--max-bytes=2GiB"]}
networkPolicy: {clients: [{namespaceSelector: {matchLabels: {team: vision}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
`, []string{"rel-control", "rel-gateway", "rel-worker-cpu"}},
		"workers as they are needed": {`
keda: {prometheus: "http://prometheus.monitoring:9090"}
serviceMonitor: {enabled: true}
workers:
  - {name: cpu, cores: 4, autoscale: {hardware: cpu, min: 2, max: 8}}
  - {name: h100, gpus: 2, autoscale: {hardware: h100, max: 3}}
`, []string{"rel-control", "rel-dispatcher", "rel-gateway", "rel-postgres", "rel-temporal", "rel-worker-cpu", "rel-worker-h100"}},
		"a database elsewhere and GPUs": {`
postgres: {url: "postgres://harpagon@db:5432/harpagon"}
temporal: {replicas: 2}
control: {replicas: 2, accessMode: ReadWriteMany, storageClass: nfs}
image: {repository: registry.example.com/harpagon, tag: v1.2.3, pullSecrets: [{name: registry}]}
workers:
  - name: h100
    gpus: 1
    nodeSelector: {gpu: h100}
    tolerations: [{key: nvidia.com/gpu, operator: Exists}]
    runtimeClassName: nvidia
    onnxruntime: {volume: {image: {reference: "registry.example.com/onnxruntime:1.24"}}, path: libonnxruntime.so.1}
    env: [{name: LD_LIBRARY_PATH, value: /opt/cuda}]
  - name: both
    replicas: 3
    cores: 4
    gpus: 2
    memory: 16Gi
    minAvailable: 2
    args: ["--allow-folder", "/models"]
`, []string{"rel-control", "rel-dispatcher", "rel-gateway", "rel-temporal", "rel-worker-both", "rel-worker-h100"}},
	}
}

// What the chart names exists: commands and flags, ports, volumes, images, the pods that
// services, budgets and policies select. What is reached from other pods may listen, and
// nothing runs as root or writes outside of its volumes.
func TestTheChartNamesWhatExists(t *testing.T) {
	docker, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			all := rendered(t, v.values)
			var names []string
			for _, s := range sets(all) {
				names = append(names, s.name)
				checkSet(t, all, s, string(docker))
			}
			assert.ElementsMatch(t, v.pods, names)
			for _, m := range all {
				switch m := m.(type) {
				case *core.Service:
					checkService(t, all, m)
				case *policy.PodDisruptionBudget:
					assert.True(t, anySet(all, func(s set) bool {
						return selects(m.Spec.Selector.MatchLabels, s.pod.Labels) && int32(m.Spec.MinAvailable.IntValue()) < s.replicas
					}), m.Name)
				case *networking.NetworkPolicy:
					assert.True(t, anySet(all, func(s set) bool { return selects(m.Spec.PodSelector.MatchLabels, s.pod.Labels) }), m.Name)
				case *core.ConfigMap:
					file := filepath.Join(t.TempDir(), "hosts.hcl")
					require.NoError(t, os.WriteFile(file, []byte(m.Data["hosts.hcl"]), 0o600))
					all, err := hosts.Load(file)
					require.NoError(t, err)
					for i, want := range []hosts.Provisioner{{Hardware: "cpu", Max: 8, Devices: 4}, {Hardware: "h100", Max: 3, Devices: 2}} {
						want.Idle, want.Join, want.External = hosts.DefaultIdle, hosts.DefaultJoin, true
						assert.Equal(t, want, all[i])
					}
				case *scaledObject:
					assert.True(t, has(all, func(s *apps.StatefulSet) bool { return s.Name == m.Spec.ScaleTargetRef.Name && s.Spec.Replicas == nil }), m.Name)
					assert.Contains(t, m.Spec.Triggers[0].Metadata["query"], "harpagon_devices_wanted{")
				case *serviceMonitor:
					assert.True(t, has(all, func(s *core.Service) bool {
						return selects(m.Spec.Selector.MatchLabels, s.Labels) && s.Spec.Ports[0].Name == m.Spec.Endpoints[0].Port
					}))
				}
			}
		})
	}
}

func checkSet(t *testing.T, all []any, s set, docker string) {
	require.True(t, selects(s.selector, s.pod.Labels), "%v does not select %v", s.selector, s.pod.Labels)
	require.Len(t, s.pod.Spec.Containers, 1)
	c := s.pod.Spec.Containers[0]
	assert.True(t, s.service == "" || has(all, func(o *core.Service) bool { return o.Name == s.service }), s.service)
	volumes := map[string]bool{}
	for _, v := range s.pod.Spec.Volumes {
		volumes[v.Name] = true
		if claim := v.PersistentVolumeClaim; claim != nil {
			assert.True(t, has(all, func(p *core.PersistentVolumeClaim) bool { return p.Name == claim.ClaimName }), claim.ClaimName)
		}
	}
	for _, v := range s.claims {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		assert.True(t, volumes[m.Name], "%s mounts %s, which is no volume of the pod", c.Name, m.Name)
	}
	assert.True(t, *s.pod.Spec.SecurityContext.RunAsNonRoot && *c.SecurityContext.ReadOnlyRootFilesystem && !*c.SecurityContext.AllowPrivilegeEscalation)
	assert.False(t, *s.pod.Spec.AutomountServiceAccountToken, "no pod calls Kubernetes")
	if len(c.Args) == 0 {
		return // PostgreSQL's image
	}
	checkCommand(t, "the chart, "+c.Name, c.Args)
	if c.Args[0] != "temporal" { // whose callers prove themselves to its own guard
		checkListens(t, "the chart, "+c.Name, c.Args)
	}
	target := "node"
	if _, suffix, found := strings.Cut(c.Image[strings.LastIndex(c.Image, ":"):], "-"); found {
		target = suffix
	}
	assert.Contains(t, docker, " AS "+target+"\n")
	for _, word := range c.Args {
		for rest := word; ; {
			_, after, found := strings.Cut(rest, "$(")
			if !found {
				break
			}
			var variable string
			variable, rest, _ = strings.Cut(after, ")")
			assert.True(t, hasVariable(c, variable), "%s: %s is not set", c.Name, variable)
		}
	}
}

func checkService(t *testing.T, all []any, s *core.Service) {
	for _, p := range s.Spec.Ports {
		assert.True(t, anySet(all, func(of set) bool {
			return selects(s.Spec.Selector, of.pod.Labels) && hasPort(of.pod.Spec.Containers[0], p.TargetPort.String())
		}), "service %s: no port %s", s.Name, p.TargetPort.String())
	}
}

// Values that contradict each other, or have no meaning, are refused by name.
func TestTheChartRefuses(t *testing.T) {
	for name, c := range map[string]struct{ values, reason string }{
		"neither certificates nor trust": {"plaintext: false", "tls.secret and plaintext: give exactly one"},
		"both":                           {"tls: {secret: s}\ntemporal: {address: 'a:1'}", "tls.secret and plaintext: give exactly one"},
		"a database for nobody":          {"temporal: {address: 'a:1'}\npostgres: {url: 'postgres://u@db/x'}", "leave one of them empty"},
		"no certificate for PostgreSQL":  {"tls: {secret: s}\nplaintext: false", "give postgres.url, or temporal.address"},
		"a volume for one":               {"control: {replicas: 2}", "needs ReadWriteMany"},
		"no gateway to spare":            {"gateway: {minAvailable: 2}", "gateway.minAvailable is 2 of 2 replicas"},
		"no worker to spare":             {"workers: [{name: a, cores: 1, replicas: 2, minAvailable: 2}]", "workers.a: minAvailable is 2 of 2 replicas"},
		"nothing to offer":               {"workers: [{name: a}]", "workers.a offers nothing"},
		"no Prometheus":                  {"workers: [{name: a, cores: 1, autoscale: {hardware: cpu, max: 2}}]", "KEDA needs keda.prometheus"},
		"less at most than at least":     {"keda: {prometheus: 'http://p'}\nworkers: [{name: a, cores: 1, autoscale: {hardware: cpu, min: 3, max: 2}}]", "min is 3 and max is 2"},
		"two numbers of pods":            {"keda: {prometheus: 'http://p'}\nworkers: [{name: a, cores: 1, replicas: 2, autoscale: {hardware: cpu, max: 2}}]", "replicas and autoscale: give one"},
		"two that scale by the same":     {"keda: {prometheus: 'http://p'}\nworkers: [{name: a, cores: 1, autoscale: {hardware: cpu, max: 2}}, {name: b, cores: 1, autoscale: {hardware: cpu, max: 2}}]", "two scale by hardware cpu"},
		"two of a name":                  {"workers: [{name: a, cores: 1}, {name: a, cores: 2}]", "two are called a"},
		"a flag of another value":        {"workers: [{name: a, cores: 1, args: ['--cores=7']}]", "--cores=7, which follows from other values"},
		"a password in the URL":          {"postgres: {url: 'postgres://u:secret@db/x'}", "postgres/url"},
		"no URL":                         {"postgres: {url: 'db:5432'}", "postgres/url"},
		"no address":                     {"temporal: {address: 'temporal'}", "temporal/address"},
		"a value of no name":             {"gateways: {replicas: 2}", "gateways"},
		"a name that is misspelt":        {"gateway: {replica: 2}", "replica"},
		"no duration":                    {"gateway: {notice: 5}", "gateway/notice"},
		"half a worker":                  {"workers: [{name: a, cores: 0.5}]", "workers/0/cores"},
		"no gateway":                     {"gateway: {replicas: 0}", "gateway/replicas"},
		"a name with capitals":           {"workers: [{name: GPU, cores: 1}]", "workers/0/name"},
		"two volumes":                    {"workers: [{name: a, cores: 1, onnxruntime: {volume: {hostPath: {path: /a}, emptyDir: {}}}}]", "onnxruntime/volume"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.values), 0o600))
			text, err := helm(t, "template", "rel", "chart", "--values", file)
			require.Error(t, err, text)
			assert.Contains(t, text, c.reason)
		})
	}
}

// The chart's own values are valid, and helm lint has no findings.
func TestTheChartIsLinted(t *testing.T) {
	text, err := helm(t, "lint", "--strict", "chart")
	require.NoError(t, err, text)
}

// checkListens reports whether a role may open the addresses that other hosts reach, with a
// token and its TLS flags.
func checkListens(t *testing.T, where string, args []string) {
	t.Helper()
	given := secure.Credentials{Token: "x"}
	for _, a := range args {
		given.Plain = given.Plain || a == "--plaintext"
		if a == "--tls-cert" {
			given.Identity = &secure.Identity{}
		}
	}
	for i, a := range args[:len(args)-1] {
		switch a {
		case "--http", "--grpc", "--attach", "--store-listen", "--listen":
			assert.NoError(t, given.MayListen(args[i+1]), where)
		}
	}
}

func anySet(all []any, is func(set) bool) bool {
	for _, s := range sets(all) {
		if is(s) {
			return true
		}
	}
	return false
}

func has[T any](all []any, is func(T) bool) bool {
	for _, m := range all {
		if one, ok := m.(T); ok && is(one) {
			return true
		}
	}
	return false
}

func hasPort(c core.Container, name string) bool {
	for _, p := range c.Ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

func hasVariable(c core.Container, name string) bool {
	for _, v := range c.Env {
		if v.Name == name {
			return true
		}
	}
	return false
}

// The pods that a provisioner's command makes are those of the chart, but for their name and
// their state.
func TestWorkerPods(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("needs jq")
	}
	folder := t.TempDir()
	kubectl := `#!/bin/sh
case "$1 $2" in
"get statefulset") cat "$FOLDER/$3.json" ;;
"create -f") cat >"$FOLDER/created.json" ;;
"delete pod") echo "$3" >"$FOLDER/deleted" ;;
*) exit 9 ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubectl"), []byte(kubectl), 0o700))
	asked := func(args ...string) error {
		run := exec.Command("./worker-pod.sh", args...)
		run.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "FOLDER="+folder)
		return run.Run()
	}
	for _, m := range rendered(t, "") {
		like, ok := m.(*apps.StatefulSet)
		if !ok || like.Name != "rel-worker-cpu" {
			continue
		}
		text, err := json.Marshal(like)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, like.Name+".json"), text, 0o600))
		require.NoError(t, asked("create", like.Name, "cpu-1"))
		made, err := os.ReadFile(filepath.Join(folder, "created.json"))
		require.NoError(t, err)
		var pod core.Pod
		require.NoError(t, yaml.UnmarshalStrict(made, &pod), "%s", made)
		require.Equal(t, "cpu-1", pod.Name)
		require.Equal(t, like.Spec.Template.Labels, pod.Labels)
		require.Equal(t, like.Spec.Template.Spec.Containers, pod.Spec.Containers)
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			require.True(t, volumes[m.Name], m.Name)
		}
		require.NoError(t, asked("delete", like.Name, "cpu-1"))
		require.FileExists(t, filepath.Join(folder, "deleted"))
		require.Error(t, asked("create", "rel-worker-none", "cpu-2"))
		require.Error(t, asked("restart", like.Name, "cpu-1"))
		return
	}
	t.Fatal("the chart has no such set")
}
