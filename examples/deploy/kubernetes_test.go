package deploy

import (
	"bytes"
	"io"
	"os"
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
	"sigs.k8s.io/yaml"

	"github.com/harpagon/harpagon/wire/secure"
)

// kinds are those of the manifests, as Kubernetes' own types.
func kinds() map[string]any {
	return map[string]any{
		"apps/v1 Deployment": new(apps.Deployment), "apps/v1 DaemonSet": new(apps.DaemonSet),
		"v1 Service": new(core.Service), "v1 ConfigMap": new(core.ConfigMap), "v1 PersistentVolumeClaim": new(core.PersistentVolumeClaim),
		"policy/v1 PodDisruptionBudget": new(policy.PodDisruptionBudget), "networking.k8s.io/v1 NetworkPolicy": new(networking.NetworkPolicy),
	}
}

// manifests decodes all of them, strictly: a field that Kubernetes does not have, or has
// of another type, is an error.
func manifests(t *testing.T) (all []any) {
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		documents := yamlv3.NewDecoder(bytes.NewReader(text))
		for {
			var node map[string]any
			err := documents.Decode(&node)
			if err == io.EOF {
				break
			}
			require.NoError(t, err, file)
			one, err := yaml.Marshal(node)
			require.NoError(t, err)
			kind := node["apiVersion"].(string) + " " + node["kind"].(string)
			into := kinds()[kind]
			require.NotNil(t, into, "%s: %s", file, kind)
			require.NoError(t, yaml.UnmarshalStrict(one, into), "%s: %s", file, kind)
			all = append(all, into)
		}
	}
	return all
}

// pods are those of the manifests, with the labels that select them.
func pods(all []any) (templates []core.PodTemplateSpec, selectors []map[string]string) {
	for _, m := range all {
		switch m := m.(type) {
		case *apps.Deployment:
			templates, selectors = append(templates, m.Spec.Template), append(selectors, m.Spec.Selector.MatchLabels)
		case *apps.DaemonSet:
			templates, selectors = append(templates, m.Spec.Template), append(selectors, m.Spec.Selector.MatchLabels)
		}
	}
	return templates, selectors
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// What the manifests name exists: commands and flags, ports, volumes, images, the pods
// that services select. What is reached from other pods may listen, and nothing runs as
// root or writes outside of its volumes.
func TestManifestsNameWhatExists(t *testing.T) {
	all := manifests(t)
	templates, selectors := pods(all)
	require.Len(t, templates, 3)
	docker, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for i, pod := range templates {
		require.True(t, selects(selectors[i], pod.Labels), "%v does not select %v", selectors[i], pod.Labels)
		require.Len(t, pod.Spec.Containers, 1)
		c := pod.Spec.Containers[0]
		checkCommand(t, "kubernetes, "+c.Name, c.Args)
		checkListens(t, "kubernetes, "+c.Name, c.Args)
		_, target, _ := strings.Cut(c.Image, ":")
		assert.Contains(t, string(docker), " AS "+target+"\n")
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
			if claim := v.PersistentVolumeClaim; claim != nil {
				assert.True(t, has(all, func(p *core.PersistentVolumeClaim) bool { return p.Name == claim.ClaimName }), claim.ClaimName)
			}
		}
		for _, m := range c.VolumeMounts {
			assert.True(t, volumes[m.Name], "%s mounts %s, which is no volume of the pod", c.Name, m.Name)
		}
		for _, from := range c.EnvFrom {
			assert.True(t, has(all, func(m *core.ConfigMap) bool { return m.Name == from.ConfigMapRef.Name }))
		}
		assert.True(t, *pod.Spec.SecurityContext.RunAsNonRoot && *c.SecurityContext.ReadOnlyRootFilesystem && !*c.SecurityContext.AllowPrivilegeEscalation)
		assert.False(t, *pod.Spec.AutomountServiceAccountToken, "nothing here asks Kubernetes for anything")
		for _, word := range c.Args {
			if name, ok := strings.CutPrefix(word, "$("); ok {
				name, _, _ = strings.Cut(name, ")")
				assert.True(t, hasVariable(c, name), "%s: %s is not set", c.Name, name)
			}
		}
	}
	for _, m := range all {
		s, ok := m.(*core.Service)
		if !ok {
			continue
		}
		found := false
		for _, pod := range templates {
			if selects(s.Spec.Selector, pod.Labels) {
				found = true
				for _, p := range s.Spec.Ports {
					assert.True(t, hasPort(pod.Spec.Containers[0], p.TargetPort.String()), "service %s: no port %s", s.Name, p.TargetPort.String())
				}
			}
		}
		assert.True(t, found, "service %s selects nothing", s.Name)
	}
}

// checkListens reports whether a role may open the addresses that other hosts reach, with a
// token and what its flags say of TLS.
func checkListens(t *testing.T, where string, args []string) {
	t.Helper()
	given := secure.Credentials{Token: "x"}
	for _, a := range args {
		given.Plain = given.Plain || a == "--plaintext"
	}
	for i, a := range args[:len(args)-1] {
		switch a {
		case "--http", "--grpc", "--attach", "--store-listen":
			assert.NoError(t, given.MayListen(args[i+1]), where)
		}
	}
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
