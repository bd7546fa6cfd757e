package operatorskill_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/operatorskill"
)

const front = "---\nname: restart-web\ndescription: Restart the web server and look whether it came back.\n---\nRun ./run.\n"

// Each skill is checked when it is loaded, and what is wrong with one is
// said and harms no other.
func TestSkillsAreCheckedWhenTheyAreLoaded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		change     func(t *testing.T, dir string)
		problem    string
	}{
		{name: "in order", file: front},
		{name: "no SKILL.md", problem: "it contains no SKILL.md"},
		{name: "no front matter", file: "Run ./run.", problem: "no front matter"},
		{name: "front matter that does not end", file: "---\nname: restart-web\n", problem: "no front matter"},
		{name: "no YAML", file: "---\nname: [\n---\n", problem: "not YAML"},
		{name: "no description", file: "---\nname: restart-web\n---\n", problem: "description is empty"},
		{name: "a name that leads elsewhere", file: "---\nname: ../restart-web\ndescription: x\n---\n", problem: "small letters"},
		{name: "another name", file: "---\nname: restart-db\ndescription: x\n---\n", problem: "its folder's is restart-web"},
		{name: "others may change it", file: front, problem: "run may be changed by others", change: func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"), 0o755))
			require.NoError(t, os.Chmod(filepath.Join(dir, "run"), 0o777))
		}},
		{name: "agents may not read it", file: front, problem: "cannot be read in a jail", change: func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "SKILL.md"), 0o600))
		}},
		{name: "a link for a SKILL.md", problem: "SKILL.md is not a file", change: func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "SKILL.md")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := filepath.Join(root, "restart-web")
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "README.md"), []byte("Ours."), 0o644))
			other := filepath.Join(root, "other")
			require.NoError(t, os.Mkdir(other, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(other, "SKILL.md"), []byte("---\nname: other\ndescription: Another.\n---\n"), 0o644))
			if c.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(c.file), 0o644))
			}
			if c.change != nil {
				c.change(t, dir)
			}
			skills, err := operatorskill.Load(root)
			require.NoError(t, err)
			require.Len(t, skills, 2)
			require.Equal(t, "other", skills[0].Name)
			require.Empty(t, skills[0].Problem)
			require.Equal(t, "restart-web", skills[1].Name)
			require.Equal(t, dir, skills[1].Dir)
			if c.problem == "" {
				require.Empty(t, skills[1].Problem)
				require.Equal(t, "Restart the web server and look whether it came back.", skills[1].Description)
			} else {
				require.Contains(t, skills[1].Problem, c.problem)
			}
		})
	}
}

func TestAFolderOfSkillsThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	none, err := operatorskill.Load("")
	require.NoError(t, err)
	require.Empty(t, none)
	for _, dir := range []string{"/does/not/exist", "relative"} {
		_, err := operatorskill.Load(dir)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
}
