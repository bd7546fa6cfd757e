package image_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/containerd"
	"github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// ownContainerd starts a containerd of the test's own in a folder, and returns what starts
// it again after its end.
func ownContainerd(t *testing.T, dir string) (own *containerd.Daemon, begin func() *containerd.Daemon) {
	t.Helper()
	begin = func() *containerd.Daemon {
		var err error
		own, err = containerd.Config{DataDir: dir}.Complete(t.Context())
		require.NoError(t, err)
		require.NoError(t, own.Start(context.WithoutCancel(t.Context())))
		return own
	}
	t.Cleanup(func() { own.Stop() })
	return begin(), begin
}

// on has a store use another containerd.
func on(t *testing.T, address string) func(*image.Config) {
	t.Helper()
	return func(cfg *image.Config) {
		c, err := client.New(address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		cfg.Client = c
	}
}

// A pull goes on by itself when containerd has died and is back. Layers that were there
// before are not downloaded again.
func TestAPullGoesOnAfterContainerdDied(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	first, err := random.Layer(2<<20, types.OCILayer)
	require.NoError(t, err)
	last, err := random.Layer(1<<20, types.OCILayer)
	require.NoError(t, err)
	_, digest := r.Push(t, "team/large:1", imagetest.Image(t, first, last))
	own, begin := ownContainerd(t, filepath.Join(jailtest.Dir(t), "ctr"))
	s := newStore(t, r, on(t, own.Address()))
	id, err := last.Digest()
	require.NoError(t, err)
	asked, goOn := make(chan struct{}, 10), make(chan struct{})
	r.Fail(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, id.String()) {
			asked <- struct{}{}
			<-goOn
		}
		return false
	})
	there, pulled := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := s.Pull(t.Context(), digest, image.Way{}, func(p image.Progress) {
			if p.LayersDone == 1 {
				select {
				case there <- struct{}{}:
				default:
				}
			}
		})
		pulled <- err
	}()
	<-asked
	<-there
	require.NoError(t, unix.Kill(own.PID(), unix.SIGKILL))
	<-own.Done()
	begin()
	close(goOn)
	require.NoError(t, <-pulled)
	firstID, err := first.Digest()
	require.NoError(t, err)
	downloads := 0
	for _, request := range r.Requests() {
		if strings.HasPrefix(request, "GET ") && strings.HasSuffix(request, firstID.String()) {
			downloads++
		}
	}
	require.Equal(t, 1, downloads, "%v", r.Requests())
}

// Without containerd a pull says that it is containerd which is missing, not the registry.
func TestAPullWithoutContainerd(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	_, digest := r.Push(t, "team/app:1", imagetest.Busybox(t))
	own, begin := ownContainerd(t, filepath.Join(jailtest.Dir(t), "ctr"))
	s := newStore(t, r, on(t, own.Address()))
	require.NoError(t, unix.Kill(own.PID(), unix.SIGKILL))
	<-own.Done()
	_, err := s.Pull(t.Context(), digest, image.Way{}, nil)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.ErrorContains(t, err, "containerd does not answer")
	begin()
	require.Eventually(t, func() bool { _, err = s.Pull(t.Context(), digest, image.Way{}, nil); return err == nil }, time.Minute, 100*time.Millisecond)
}
