package imageref_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

var sum = "sha256:" + strings.Repeat("ab", 32)

func TestAReferenceNamesItsRegistry(t *testing.T) {
	t.Parallel()
	for text, registry := range map[string]string{
		"docker.io/library/golang:1.26":         "docker.io",
		"ghcr.io/team/app:v1@" + sum:            "ghcr.io",
		"127.0.0.1:5000/a/b/c@" + sum:           "127.0.0.1:5000",
		"registry.example.com/app:2026.11.25_a": "registry.example.com",
	} {
		named, err := imageref.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, text, named.String())
		require.Equal(t, registry, imageref.Registry(named))
	}
	for text, fix := range map[string]string{
		"golang":                   "docker.io/library/golang:latest",
		"golang:1.26":              "docker.io/library/golang:1.26",
		"team/app":                 "docker.io/team/app:latest",
		"ghcr.io/team/app":         "ghcr.io/team/app:latest",
		"":                         "docker.io/library/debian:12",
		"https://ghcr.io/team/app": "docker.io/library/debian:12",
		"ghcr.io/Team/app:1":       "docker.io/library/debian:12",
		"ghcr.io/team/app@sha256:": "docker.io/library/debian:12",
		"ghcr.io/../../app:1":      "docker.io/library/debian:12",
		"ghcr.io/team/app:1 --all": "docker.io/library/debian:12",
	} {
		_, err := imageref.Parse(text)
		e := fault.As(err)
		require.NotNil(t, e, text)
		require.Equal(t, fault.Invalid, e.Kind)
		require.Contains(t, e.Fix, fix, text)
	}
}

func TestAPinnedReferenceHasADigestAndNoTag(t *testing.T) {
	t.Parallel()
	pinned, err := imageref.Pinned("ghcr.io/team/app:v1@" + sum)
	require.NoError(t, err)
	require.Equal(t, "ghcr.io/team/app@"+sum, pinned.String())
	_, err = imageref.Pinned("ghcr.io/team/app:v1")
	require.ErrorContains(t, err, "names no digest")
	text, err := imageref.Pin("ghcr.io/team/app:v1", sum)
	require.NoError(t, err)
	require.Equal(t, "ghcr.io/team/app@"+sum, text)
	_, err = imageref.Pin("ghcr.io/team/app:v1", "sha256:short")
	require.ErrorContains(t, err, "not a digest")
}

func TestRegistriesAndRepositories(t *testing.T) {
	t.Parallel()
	for text, registry := range map[string]bool{"docker.io": true, "ghcr.io": true, "127.0.0.1:5000": true, "ghcr.io/team": false, "https://ghcr.io": false, "team": false, "": false} {
		require.Equal(t, registry, imageref.IsRegistry(text), text)
	}
	for text, repository := range map[string]bool{"docker.io/library/debian": true, "ghcr.io/team/app": true, "mirror.example.com/dockerhub": true, "ghcr.io": false, "debian": false, "team/app": false, "ghcr.io/team/": false, "ghcr.io/team/app:1": false} {
		require.Equal(t, repository, imageref.IsRepository(text), text)
	}
}
