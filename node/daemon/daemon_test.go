package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	"github.com/deckhand-sh/deckhand/node/identity/identitytest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

func TestMain(m *testing.M) {
	process.RunIfAsked()
	code := jailtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestAHubInTheSameProcessIsAskedForATokenOnce(t *testing.T) {
	t.Parallel()
	jails := jailtest.Config(t)
	hub := identitytest.New(t)
	made := 0
	for range 2 {
		d, err := daemon.Config{
			DataDir: jails.DataDir, Containerd: jails.Containerd, Namespace: jails.Namespace, InitPath: jails.InitPath,
			HubURL: hub.URL,
			MakeJoinToken: func(context.Context) (string, error) {
				made++
				return hub.Token(), nil
			},
		}.Complete(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Start(t.Context()))
		require.Equal(t, "node_1", d.NodeID())
		d.Stop()
		require.NoError(t, d.Err())
	}
	require.Equal(t, 1, made)
}

func TestTheEnvironmentFillsLabelsAndPaths(t *testing.T) {
	t.Setenv("DECKHAND_LABELS", "zone=a, disk=ssd")
	t.Setenv("DECKHAND_ROOT_PATHS", "/opt,/srv/tools")
	t.Setenv("DECKHAND_JOIN_TOKEN", "secret-token")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	daemon.Flags(flags)
	var cfg daemon.Config
	require.NoError(t, config.Load(flags, "", &cfg))
	require.Equal(t, daemon.Labels{"zone": "a", "disk": "ssd"}, cfg.Labels)
	require.Equal(t, daemon.Paths{"/opt", "/srv/tools"}, cfg.RootPaths)
	require.Equal(t, "secret-token", cfg.JoinToken.Reveal())
	require.Equal(t, uint32(1_000_000_000), cfg.UIDBase)

	t.Setenv("DECKHAND_LABELS", "zone")
	require.ErrorContains(t, config.Load(flags, "", &cfg), "zone=a,disk=ssd")
}

func TestAnOperatorMayShowNothing(t *testing.T) {
	for text, want := range map[string]daemon.Paths{
		"show-paths: []\n":        {},
		"show-paths: [/srv/a]\n":  {"/srv/a"},
		"name: without-the-key\n": jail.DefaultShowPaths,
	} {
		path := filepath.Join(t.TempDir(), "node.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		daemon.Flags(flags)
		var cfg daemon.Config
		require.NoError(t, config.Load(flags, path, &cfg))
		require.Equal(t, want, cfg.ShowPaths, text)
	}
	for says, bad := range map[string]daemon.Config{
		"special-addresses": {SpecialAddresses: daemon.Paths{"127.1"}},
		"labels":            {Labels: daemon.Labels{"zone": "\x1b[2J"}},
	} {
		bad.DataDir = t.TempDir()
		_, err := bad.Complete(t.Context())
		require.ErrorContains(t, err, says)
	}
}
