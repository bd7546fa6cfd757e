package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/ident"
)

// The freezer of version 2, which is there beside version 1 as well: what is
// held stands when the rest continues, is taken along by the next hold, and
// ends when it is killed.
func TestTheFreezerOfVersionTwoHoldsAsThatOfVersionOne(t *testing.T) {
	t.Parallel()
	root := filepath.Join(cgroupRoot, "unified")
	if isUnified() {
		root = cgroupRoot
	}
	if os.Geteuid() != 0 || !isDir(root) {
		t.Skip("cgroups of version 2 are root's, and not on every machine")
	}
	f := freezerOf{dir: filepath.Join(root, ident.New("test")), version: 2}
	require.NoError(t, os.Mkdir(f.dir, 0o755))
	require.NoError(t, os.Mkdir(f.held().dir, 0o755))
	t.Cleanup(func() {
		require.NoError(t, os.Remove(f.held().dir))
		require.NoError(t, os.Remove(f.dir))
	})
	begin := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		require.NoError(t, cmd.Start())
		require.NoError(t, f.take(cmd.Process.Pid))
		return cmd
	}
	init, first := begin(), begin()
	require.NoError(t, f.freeze(t.Context()))
	require.NoError(t, f.gather(init.Process.Pid))
	require.NoError(t, f.thaw())
	in, err := f.held().processes()
	require.NoError(t, err)
	require.Equal(t, []int{first.Process.Pid}, in)
	require.NoError(t, f.held().freeze(t.Context()), "it stands")
	frozen, err := f.frozen()
	require.NoError(t, err)
	require.False(t, frozen, "init goes on")

	second := begin()
	require.NoError(t, f.gather(init.Process.Pid))
	in, err = f.held().processes()
	require.NoError(t, err)
	require.ElementsMatch(t, []int{first.Process.Pid, second.Process.Pid}, in)
	require.NoError(t, unix.Kill(second.Process.Pid, unix.SIGKILL))
	require.Error(t, second.Wait(), "a kill needs no thaw")
	for _, cmd := range []*exec.Cmd{init, first} {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
}
