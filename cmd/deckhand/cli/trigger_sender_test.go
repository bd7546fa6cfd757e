package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
)

// The command line takes the senders that the hub knows, and no others.
func TestTheCommandLineKnowsEverySender(t *testing.T) {
	t.Parallel()
	help := execute(t.Context(), "trigger", "create", "--help")
	require.Zero(t, help.code, help.stderr)
	for _, name := range sender.Names(sender.Any) {
		require.Contains(t, help.stdout, name)
	}
	res := newHub(t).run(t, "trigger", "create", "hook", "--agent", "watch", "--webhook", "nosuch")
	require.NotZero(t, res.code)
	_, list, ok := strings.Cut(res.errorLine(t), "use one of ")
	require.True(t, ok, res.stderr)
	list, _, _ = strings.Cut(list, ":")
	names := sender.Names(sender.Any)
	slices.Sort(names)
	require.Equal(t, names, strings.Split(list, ", "))
}
