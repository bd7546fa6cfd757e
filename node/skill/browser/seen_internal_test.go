package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A person acts in a tab that they have had before them for a moment, and in no other.
func TestATabIsSeenBeforeItIsActedIn(t *testing.T) {
	t.Parallel()
	var s seen
	one, other := &tab{number: 1}, &tab{number: 2}
	require.False(t, s.has(one, false), "nothing is shown")
	s.show(one, one)
	require.True(t, s.has(one, false))
	s.show(other, nil)
	require.False(t, s.has(other, false), "there is no picture of it")
	require.True(t, s.has(other, true), "its dialog is shown")
	require.False(t, s.has(one, true))
	s.show(other, other)
	s.since = time.Now().Add(-lookFor / 2)
	require.False(t, s.has(other, false), "not for long enough")
	s.since = time.Now().Add(-lookFor)
	require.True(t, s.has(other, false))
	require.False(t, s.has(one, false))
}
