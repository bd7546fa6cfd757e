// Package chart checks the Helm chart. It is a package of its own because the libraries of
// Helm and Kubernetes take long to compile: make soak runs it.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

const chartDir = "../../helm/deckhand"

// manifests are what the chart makes, by kind and name.
type manifests map[string]any

// render renders the chart as `helm template` does, and decodes every object strictly
// into its type: a field that there is not is an error.
func render(t *testing.T, values map[string]any) (manifests, error) {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	require.NoError(t, err)
	// It validates against values.schema.json.
	all, err := chartutil.ToRenderValues(loaded, values, chartutil.ReleaseOptions{Name: "deckhand", Namespace: "agents"}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	require.NoError(t, err)
	out := manifests{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(files[name])))
		for {
			text, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			var meta struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			require.NoError(t, strict.Unmarshal(text, &meta), string(text))
			object := map[string]any{
				"apps/v1 StatefulSet": &appsv1.StatefulSet{}, "apps/v1 Deployment": &appsv1.Deployment{}, "v1 Service": &corev1.Service{},
				"policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "networking.k8s.io/v1 Ingress": &networkingv1.Ingress{},
				"networking.k8s.io/v1 NetworkPolicy": &networkingv1.NetworkPolicy{},
			}[meta.APIVersion+" "+meta.Kind]
			require.NotNil(t, object, "%s: an object of the kind %s %s", name, meta.APIVersion, meta.Kind)
			require.NoError(t, strict.UnmarshalStrict(text, object), "%s\n%s", name, text)
			out[meta.Kind+" "+meta.Metadata.Name] = object
		}
	}
	return out, nil
}

func TestTheChartIsRenderedIntoKubernetesObjects(t *testing.T) {
	t.Parallel()
	got, err := render(t, nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Deployment deckhand-worker", "NetworkPolicy deckhand-hub", "NetworkPolicy deckhand-worker",
		"PodDisruptionBudget deckhand-hub", "PodDisruptionBudget deckhand-worker",
		"Service deckhand-edge", "Service deckhand-hub", "Service deckhand-hub-replicas", "StatefulSet deckhand-hub",
	}, slices.Sorted(maps.Keys(got)))

	hub := got["StatefulSet deckhand-hub"].(*appsv1.StatefulSet)
	worker := got["Deployment deckhand-worker"].(*appsv1.Deployment)
	require.EqualValues(t, 2, *hub.Spec.Replicas)
	require.EqualValues(t, 2, *worker.Spec.Replicas)
	for name, pod := range map[string]corev1.PodTemplateSpec{"hub": hub.Spec.Template, "worker": worker.Spec.Template} {
		c := pod.Spec.Containers[0]
		require.Equal(t, "ghcr.io/deckhand-sh/deckhand:0.1.0", c.Image)
		require.NotNil(t, c.ReadinessProbe, name)
		require.NotNil(t, c.LivenessProbe, name)
		require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot, name)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
		require.False(t, *pod.Spec.AutomountServiceAccountToken, name)
		mounts := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			mounts[v.Name] = true
		}
		for _, v := range hub.Spec.VolumeClaimTemplates {
			mounts[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			require.True(t, mounts[m.Name], "%s mounts %s", name, m.Name)
		}
	}
	// Each selector finds the pods that it is for, and no others.
	labels := map[string]map[string]string{"hub": hub.Spec.Template.Labels, "worker": worker.Spec.Template.Labels}
	selects := func(selector map[string]string) (parts []string) {
		for _, part := range []string{"hub", "worker"} {
			found := len(selector) > 0
			for key, value := range selector {
				found = found && labels[part][key] == value
			}
			if found {
				parts = append(parts, part)
			}
		}
		return parts
	}
	for _, name := range []string{"deckhand-hub", "deckhand-hub-replicas", "deckhand-edge"} {
		s := got["Service "+name].(*corev1.Service)
		require.Equal(t, []string{"hub"}, selects(s.Spec.Selector), name)
		ports := map[intstr.IntOrString]bool{}
		for _, p := range hub.Spec.Template.Spec.Containers[0].Ports {
			ports[intstr.FromString(p.Name)] = true
		}
		for _, p := range s.Spec.Ports {
			require.True(t, ports[p.TargetPort], "%s has the port %s", name, p.TargetPort.String())
		}
	}
	for _, part := range []string{"hub", "worker"} {
		budget := got["PodDisruptionBudget deckhand-"+part].(*policyv1.PodDisruptionBudget)
		require.Equal(t, []string{part}, selects(budget.Spec.Selector.MatchLabels))
		require.Equal(t, 1, budget.Spec.MaxUnavailable.IntValue())
		policy := got["NetworkPolicy deckhand-"+part].(*networkingv1.NetworkPolicy)
		require.Equal(t, []string{part}, selects(policy.Spec.PodSelector.MatchLabels))
	}
	require.Equal(t, hub.Spec.ServiceName, "deckhand-hub-replicas")
}

func TestTheChartsValuesAreUsedAndChecked(t *testing.T) {
	t.Parallel()
	got, err := render(t, map[string]any{
		"image": map[string]any{"tag": "1.2.3"},
		"hub": map[string]any{
			"replicas": 3, "natsCA": true, "env": map[string]any{"DECKHAND_MAX_ACTIVE": 50}, "storage": map[string]any{"className": "fast"},
			"ingress": map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "console-tls"},
		},
		"worker":        map[string]any{"slots": 16, "pool": "gpu"},
		"networkPolicy": map[string]any{"apiFrom": []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"name": "ingress"}}}}},
		"tolerations":   []any{map[string]any{"key": "agents", "operator": "Exists"}},
	})
	require.NoError(t, err)
	hub := got["StatefulSet deckhand-hub"].(*appsv1.StatefulSet)
	require.Equal(t, "ghcr.io/deckhand-sh/deckhand:1.2.3", hub.Spec.Template.Spec.Containers[0].Image)
	env := map[string]string{}
	for _, e := range hub.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	require.Equal(t, "50", env["DECKHAND_MAX_ACTIVE"])
	require.Equal(t, "/etc/deckhand/hub/nats-ca", env["DECKHAND_NATS_CA"])
	require.Equal(t, "fast", *hub.Spec.VolumeClaimTemplates[0].Spec.StorageClassName)
	require.Equal(t, "agents", hub.Spec.Template.Spec.Tolerations[0].Key)
	ingress := got["Ingress deckhand-hub"].(*networkingv1.Ingress)
	require.Equal(t, "console-tls", ingress.Spec.TLS[0].SecretName)
	require.Equal(t, "api", ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Name)
	from := got["NetworkPolicy deckhand-hub"].(*networkingv1.NetworkPolicy).Spec.Ingress[0].From
	require.Len(t, from, 2, "workers, and what is named")

	for name, values := range map[string]map[string]any{
		"replicas":      {"hub": map[string]any{"replicas": 0}},
		"publicURL":     {"hub": map[string]any{"publicURL": "http://hub.example.com"}},
		"edgeAddress":   {"hub": map[string]any{"edgeAddress": "hub.example.com"}},
		"slots":         {"worker": map[string]any{"slots": "many"}},
		"not allowed":   {"hubs": map[string]any{}},
		"propertyNames": {"worker": map[string]any{"env": map[string]any{"lower": "x"}}},
		"pullPolicy":    {"image": map[string]any{"pullPolicy": "Sometimes"}},
		"secrets":       {"secrets": map[string]any{"hub": ""}},
		"networkPolicy": {"networkPolicy": map[string]any{"enabled": "yes"}},
	} {
		_, err := render(t, values)
		require.Error(t, err, name)
	}
}

func TestTheChartIsLinted(t *testing.T) {
	t.Parallel()
	result := lint.All(chartDir, nil, "agents", false)
	for _, m := range result.Messages {
		require.Less(t, m.Severity, support.WarningSev, m.Error())
	}
}
