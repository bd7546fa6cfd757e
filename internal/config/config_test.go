package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/config"
)

type target struct {
	Listen   string            `koanf:"listen"`
	LeaseTTL time.Duration     `koanf:"lease-ttl"`
	Token    config.Secret     `koanf:"token"`
	Slots    int               `koanf:"slots"`
	Labels   map[string]string `koanf:"labels"`
}

func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("listen", "default", "")
	fs.Duration("lease-ttl", 30*time.Second, "")
	fs.String("token", "", "")
	fs.Int("slots", 4, "")
	fs.StringToString("labels", nil, "")
	return fs
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deckhand.yaml")
	require.NoError(t, os.WriteFile(path, []byte("listen: file\nlease-ttl: 5s\nslots: 7\n"), 0o600))
	t.Setenv("DECKHAND_LEASE_TTL", "6s")
	t.Setenv("DECKHAND_SLOTS", "8")
	t.Setenv("DECKHAND_UNRELATED", "x")
	fs := flags()
	require.NoError(t, fs.Parse([]string{"--slots=9", "--labels=zone=a,disk=ssd"}))
	var got target
	require.NoError(t, config.Load(fs, path, &got))
	require.Equal(t, target{
		Listen: "file", LeaseTTL: 6 * time.Second, Slots: 9,
		Labels: map[string]string{"zone": "a", "disk": "ssd"},
	}, got)
}

func TestDefaultsAloneFillTheTarget(t *testing.T) {
	var got target
	require.NoError(t, config.Load(flags(), "", &got))
	require.Equal(t, "default", got.Listen)
	require.Equal(t, 30*time.Second, got.LeaseTTL)
}

func TestUnknownKeyInTheFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deckhand.yaml")
	require.NoError(t, os.WriteFile(path, []byte("lisen: x\n"), 0o600))
	err := config.Load(flags(), path, &target{})
	require.ErrorContains(t, err, `unknown key "lisen"`)
	require.ErrorContains(t, err, "listen")
}

func TestMalformedValueIsNamed(t *testing.T) {
	t.Setenv("DECKHAND_LEASE_TTL", "soon")
	require.ErrorContains(t, config.Load(flags(), "", &target{}), "lease-ttl")
}

// A secret does not print itself, whatever prints it.
func TestSecretNeverPrints(t *testing.T) {
	s := target{Token: "hunter2hunter2"}
	data, err := json.Marshal(s)
	require.NoError(t, err)
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, s.Token), string(data)} {
		require.NotContains(t, out, "hunter2")
	}
	require.Equal(t, "hunter2hunter2", s.Token.Reveal())
}
