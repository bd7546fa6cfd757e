package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/config"
)

type templated struct {
	Listen string            `koanf:"listen"`
	Idle   time.Duration     `koanf:"idle"`
	Slots  int               `koanf:"slots"`
	Soft   bool              `koanf:"soft"`
	Paths  []string          `koanf:"paths"`
	Labels map[string]string `koanf:"labels"`
}

func templateFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("config", "", "")
	flags.String("listen", "127.0.0.1:7800", "address of the API")
	flags.Duration("idle", time.Minute, "how long")
	flags.Int("slots", 8, "how many; see --idle")
	flags.Bool("soft", false, "whether")
	flags.StringSlice("paths", []string{"/var/log", "/srv"}, "which folders")
	flags.StringToString("labels", nil, "what it is selected by")
	flags.Bool("once", false, "does something")
	config.NotAKey(flags, "once")
	config.Reserve(flags, "token", "it is made")
	return flags
}

func TestATemplateChangesNothingAndHasEveryKey(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, config.WriteTemplate(&out, templateFlags(), "Configuration of a test."))
	require.Equal(t, `# Configuration of a test.

# How long.
#idle: 1m0s

# What it is selected by.
#labels: {}

# Address of the API.
#listen: 127.0.0.1:7800

# Which folders.
#paths: ["/var/log","/srv"]

# How many; see idle.
#slots: 8

# Whether.
#soft: false
`, out.String())

	// Uncommented, it has the defaults too.
	path := filepath.Join(t.TempDir(), "test.yaml")
	for _, text := range [][]byte{out.Bytes(), bytes.ReplaceAll(out.Bytes(), []byte("\n#"), []byte("\n"))} {
		text = bytes.ReplaceAll(text, []byte("\n "), []byte("\n# "))
		require.NoError(t, os.WriteFile(path, text, 0o600))
		var got templated
		require.NoError(t, config.Load(templateFlags(), path, &got))
		require.Equal(t, templated{"127.0.0.1:7800", time.Minute, 8, false, []string{"/var/log", "/srv"}, map[string]string{}}, got)
	}
}

func TestEditSetsWhatWasGivenAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	flags := templateFlags()
	require.NoError(t, flags.Parse([]string{"--listen", "0.0.0.0:80", "--paths", "/a,/b", "--slots=3", "--labels", "zone=eu", "--once", "--idle=5m"}))
	changed, keys, err := config.Edit([]byte("# mine\n#listen: 127.0.0.1:7800\n\npaths:\n  - /old\n  - /older\nsoft: true # as it is\nslots: 9\n"), flags)
	require.NoError(t, err)
	require.Equal(t, []string{"idle", "labels", "listen", "paths", "slots"}, keys)
	require.Equal(t, "# mine\nlisten: 0.0.0.0:80\n\npaths: [\"/a\",\"/b\"]\nsoft: true # as it is\nslots: 3\nidle: 5m0s\nlabels: {\"zone\":\"eu\"}\n", string(changed))
	path := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	var got templated
	require.NoError(t, config.Load(templateFlags(), path, &got))
	require.Equal(t, templated{"0.0.0.0:80", 5 * time.Minute, 3, true, []string{"/a", "/b"}, map[string]string{"zone": "eu"}}, got)
}

func TestAReservedKeyIsRefusedWithTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(path, []byte("token: abc\n"), 0o600))
	require.ErrorContains(t, config.Load(templateFlags(), path, &templated{}), `remove the key "token": it is made`)
	flags := templateFlags()
	require.NoError(t, flags.Parse([]string{"--token=abc"}))
	require.ErrorContains(t, config.Load(flags, "", &templated{}), "remove --token: it is made")
	t.Setenv("DECKHAND_TOKEN", "of the command line")
	t.Setenv("DECKHAND_SLOTS", "4")
	require.NoError(t, config.Load(templateFlags(), "", &templated{}))
	require.Equal(t, []string{"DECKHAND_SLOTS"}, config.Environment(templateFlags()))
}
