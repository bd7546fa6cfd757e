package jail_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func gvisor(s *nodev1.JailSpec) { s.Runtime = "runsc" }

func TestAGVisorJail(t *testing.T) {
	m := jailtest.Manager(t, jailtest.Config(t))
	id := ensure(t, m, gvisor)
	st, out := sh(t, m, id, "id; echo hi; uname -a; cat /proc/self/cgroup; exit 3")
	t.Log(st, out)
	require.EqualValues(t, 3, st.GetExitCode())
	_, err := m.Stop(t.Context(), id)
	require.NoError(t, err)
}
