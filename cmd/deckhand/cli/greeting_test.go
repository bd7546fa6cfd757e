package cli_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/greeting"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A service is greeted about at its installation: where it is, where data and settings
// are, and how to stop, follow and remove it.
func TestTheGreetingOfAService(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	client, err := sdk.New(sdk.Config{URL: h.url, Token: testToken})
	require.NoError(t, err)
	var out bytes.Buffer
	dir := t.TempDir()
	greeting.New(greeting.Config{Out: &out, DataDir: dir, Slots: 3, Service: "deckhand", ConfigFile: "/etc/deckhand/up.yaml"}).Up(t.Context(), client, "ann can use it without sudo.")
	for _, want := range []string{
		h.url, "3 slots", "ann can use it without sudo.", "systemctl status deckhand", "Data          " + dir,
		"/etc/deckhand/up.yaml, then: systemctl restart deckhand", "journalctl -u deckhand", "deckhand up --uninstall",
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "Ctrl-C")
}
