package httprule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func TestScopesCoverMethodsAndPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		methods, paths []string
		method, target string
		want           bool
	}{
		{"all", nil, nil, "DELETE", "/a", true},
		{"a method", []string{"GET", "POST"}, nil, "POST", "/a", true},
		{"another method", []string{"GET"}, nil, "POST", "/a", false},
		{"no HEAD for GET", []string{"GET"}, nil, "HEAD", "/a", false},
		{"a path", nil, []string{"/b", "/a/**"}, "GET", "/a/x?y=z", true},
		{"another path", nil, []string{"/b", "/a/**"}, "GET", "/c", false},
		{"a path with a method of its own", nil, []string{"GET /a"}, "POST", "/a", false},
		{"both", []string{"GET"}, []string{"/a"}, "GET", "/a", true},
		{"the path only", []string{"GET"}, []string{"/a"}, "PUT", "/a", false},
		{"the method only", []string{"GET"}, []string{"/a"}, "GET", "/b", false},
		{"all but some", nil, []string{"!/admin/**"}, "GET", "/a", true},
		{"what is left out", nil, []string{"!/admin/**"}, "GET", "/admin/users", false},
		{"what is left out of some", nil, []string{"/a/**", "!/a/keys/**"}, "POST", "/a/keys", false},
		{"the rest of them", nil, []string{"/a/**", "!/a/keys/**"}, "POST", "/a/b", true},
		{"what is left out for a lenient server: case", nil, []string{"!/admin/**"}, "GET", "/ADMIN/users", false},
		{"what is left out for a lenient server: a trailing slash", nil, []string{"!/admin"}, "GET", "/admin/", false},
		{"what is left out for a lenient server: an encoded slash", nil, []string{"!/admin/**"}, "GET", "/admin%2Fusers", false},
	} {
		scope, err := httprule.ParseScope(tt.methods, tt.paths)
		require.NoError(t, err, tt.name)
		path, err := httprule.Canonical(tt.target)
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, scope.Covers(tt.method, path), tt.name)
	}
	for _, wrong := range []string{"/a/**/b", "!", "!!/a", "!/a/**/b"} {
		_, err := httprule.ParseScope(nil, []string{wrong})
		require.Error(t, err, wrong)
	}
}
