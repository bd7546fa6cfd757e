package operatorskill_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/operatorskill"
)

// Every node has the built-in skills; an operator's own takes the place of one.
func TestBuiltinSkills(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "skills")
	for range 2 { // the daemon starts again
		skills, err := operatorskill.WithBuiltin(nil, dir)
		require.NoError(t, err)
		require.Len(t, skills, 1)
		require.Equal(t, "git", skills[0].Name)
		require.Empty(t, skills[0].Problem)
		info, err := os.Stat(filepath.Join(skills[0].Dir, "SKILL.md"))
		require.NoError(t, err)
		require.EqualValues(t, 0o644, info.Mode().Perm(), "jails read it as another user")
	}
	own := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(own, "git"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(own, "git/SKILL.md"), []byte("---\nname: git\ndescription: Our way.\n---\n"), 0o644)) //nolint:gosec // as operators do
	loaded, err := operatorskill.Load(own)
	require.NoError(t, err)
	skills, err := operatorskill.WithBuiltin(loaded, dir)
	require.NoError(t, err)
	require.Len(t, skills, 1)
	require.Equal(t, "Our way.", skills[0].Description)
}
