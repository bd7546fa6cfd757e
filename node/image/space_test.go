package image_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// containerd's own file system may be full before the node's limit is reached. Whether the
// space ends in the middle of a download or of unpacking, the error says so and what to do,
// and what was written is deleted: a smaller image then fits.
func TestAPullWithoutSpaceLeft(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	large, err := random.Layer(40<<20, types.OCILayer)
	require.NoError(t, err)
	// Small as an archive.
	zeros := imagetest.Layer(t, imagetest.File{Header: tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644}, Content: strings.Repeat("\x00", 40<<20)})
	dir := filepath.Join(jailtest.Dir(t), "ctr")
	require.NoError(t, os.Mkdir(dir, 0o711))
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=0711"))
	own, _ := ownContainerd(t, dir)
	s := newStore(t, r, on(t, own.Address()))
	for name, layer := range map[string]v1.Layer{"download": large, "unpack": zeros} {
		_, digest := r.Push(t, "team/"+name+":1", imagetest.Image(t, layer))
		_, err = s.Pull(t.Context(), digest, image.Way{}, nil)
		require.True(t, fault.Is(err, fault.Precondition), "%s: %v", name, err)
		require.Equal(t, fault.ImageUnavailable, fault.As(err).Code)
		require.Contains(t, fault.As(err).Message, "the node has no disk space for image "+digest)
		require.Contains(t, fault.As(err).Fix, "deckhand node image prune NODE")
		_, small := r.Push(t, "team/small:"+name, imagetest.Busybox(t))
		// containerd may still be deleting.
		waittest.Until(t, 30*time.Second, "what the "+name+" wrote to be deleted", func() bool {
			_, err = s.Pull(t.Context(), small, image.Way{}, nil)
			if err != nil {
				require.True(t, fault.Is(err, fault.Precondition), "%v", err)
			}
			return err == nil
		})
		list, err := s.List(t.Context())
		require.NoError(t, err)
		for _, one := range list {
			require.NotEqual(t, digest, one.Reference)
		}
	}
}
