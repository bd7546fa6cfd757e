package devcontainer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func TestAFileWithComments(t *testing.T) {
	t.Parallel()
	c, err := devcontainer.Parse([]byte(`// For editors and agents.
{
	"name": "app",
	"image": "mcr.microsoft.com/devcontainers/go:1.26", /* pinned by the task */
	"features": {},
	"containerEnv": {"GOFLAGS": "-mod=mod", "HERE": "${containerWorkspaceFolder}/bin"},
	"remoteEnv": {"TOKEN": null, "CI": "1"},
	"remoteUser": "root",
	"customizations": {"vscode": {"extensions": ["golang.go"]}},
	"postCreateCommand": {"b": ["npm", "ci", "--silent mode"], "a": "go mod download",},
}`))
	require.NoError(t, err)
	require.Equal(t, devcontainer.Config{
		Image: "mcr.microsoft.com/devcontainers/go:1.26",
		Env:   []string{"CI=1", "GOFLAGS=-mod=mod", "HERE=/workspace/bin"},
		Root:  true,
		PostCreate: []devcontainer.Command{
			{Name: "a", Line: "go mod download"},
			{Name: "b", Argv: []string{"npm", "ci", "--silent mode"}},
		},
	}, c)
	require.Equal(t, `npm ci "--silent mode"`, c.PostCreate[1].String())
	for text, want := range map[string][]devcontainer.Command{
		`"make"`:        {{Line: "make"}},
		`["make","-j"]`: {{Argv: []string{"make", "-j"}}},
		`""`:            nil,
		`null`:          nil,
	} {
		c, err := devcontainer.Parse([]byte(`{"image": "ghcr.io/team/app:1", "remoteUser": "vscode", "postCreateCommand": ` + text + `}`))
		require.NoError(t, err, text)
		require.Equal(t, want, c.PostCreate)
		require.False(t, c.Root)
	}
}

func TestWhatMakesAnotherContainerIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`{"build": {"dockerfile": "Dockerfile"}}`:                                                `docker build -t REGISTRY/NAME:TAG`,
		`{"dockerFile": "Dockerfile"}`:                                                           `"image": "REGISTRY/NAME:TAG" in place of build`,
		`{"dockerComposeFile": "compose.yaml", "service": "app"}`:                                "as a job",
		`{"image": "ghcr.io/team/app:1", "features": {"ghcr.io/devcontainers/features/go": {}}}`: "jail.setup: [apt-get update",
		`{}`:                       "names no image",
		`{"image": "golang:1.26"}`: "docker.io/library/golang:1.26",
		`{"image": 5}`:             "containers.dev",
		`[]`:                       "containers.dev",
		`{"image": `:               "not JSON with comments",
		`{"image": "ghcr.io/team/app:1", "containerEnv": {"A": "${localEnv:HOME}"}}`:         "has no value here",
		`{"image": "ghcr.io/team/app:1", "containerEnv": {"LD_PRELOAD": "/workspace/x.so"}}`: "changes which programs",
		`{"image": "ghcr.io/team/app:1", "remoteEnv": {"path": "/workspace/bin"}}`:           "changes which programs",
		`{"image": "ghcr.io/team/app:1", "containerEnv": {"A B": "x"}}`:                      "letters, digits and _",
		`{"image": "ghcr.io/team/app:1", "postCreateCommand": 5}`:                            "neither a command line nor a list",
		`{"image": "ghcr.io/team/app:1", "postCreateCommand": {"a": [""]}}`:                  "postCreateCommand.a is neither",
		`{"image": "ghcr.io/team/app:1", "postCreateCommand": "a\u0000b"}`:                   "NUL byte",
		strings.Repeat(" ", devcontainer.MaxBytes+1):                                         "at most",
	} {
		_, err := devcontainer.Parse([]byte(text))
		e := fault.As(err)
		require.NotNil(t, e, text)
		require.Equal(t, fault.Precondition, e.Kind, text)
		require.Contains(t, e.Message+": "+e.Fix, says, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"image": "ghcr.io/team/app:1", "postCreateCommand": {"a": "b"}} // c`))
	f.Add([]byte(`{"image": "ghcr.io/team/app:1", "containerEnv": {"A": "${containerWorkspaceFolder}"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := devcontainer.Parse(data)
		if err != nil {
			require.NotNil(t, fault.As(err))
			return
		}
		require.NotEmpty(t, c.Image)
		for _, one := range c.PostCreate {
			require.NotEmpty(t, one.String())
		}
	})
}
