// Package scrapetest verifies, in tests, that a role's metrics follow
// Prometheus' rules and that docs/monitoring.md lists exactly these metrics.
package scrapetest

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// Registry keeps what is registered in it, for Check.
type Registry struct {
	*prometheus.Registry

	names []string
}

// New creates a Registry.
func New() *Registry { return &Registry{Registry: prometheus.NewPedanticRegistry()} }

var (
	described  = regexp.MustCompile(`fqName: "([^"]+)"`)
	documented = regexp.MustCompile("(?m)^\\| `(deckhand_[a-z]+_[a-z_]+)")
)

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for d := range descs {
		r.names = append(r.names, described.FindStringSubmatch(d.String())[1])
	}
	return r.Registry.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Check fails the test when a metric breaks Prometheus' rules, when the
// document at path lacks one, or when it has one of that prefix that is not
// registered.
func (r *Registry) Check(t *testing.T, prefix, path string) {
	t.Helper()
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var listed []string
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		if len(m[1]) > len(prefix) && m[1][:len(prefix)] == prefix {
			listed = append(listed, m[1])
		}
	}
	slices.Sort(listed)
	slices.Sort(r.names)
	require.Equal(t, r.names, listed, "what is registered, and what %s lists", path)
}
