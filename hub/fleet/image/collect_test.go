package image_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodeimage "github.com/deckhand-sh/deckhand/node/image"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
)

// Images that nothing used for long are deleted from nodes, and those that a task which has
// not ended keeps are not, whether it is in the queue or paused. On a node whose disk is nearly full
// an hour is long.
func TestUnusedImagesAreCollected(t *testing.T) {
	t.Parallel()
	r := imagetest.NewRegistry(t)
	cfg := jailtest.Config(t)
	cfg.Images = nodeimage.Config{RegistryConfig: r.CertsDir, RegistryAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	m := jailtest.Manager(t, cfg)
	c, err := client.New(cfg.Containerd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	f := tasktest.New(t)
	f.User("ann", "admin")
	node := f.Node("web-1")
	f.Exec("UPDATE nodes SET capability = $2 WHERE id = $1", node, nodelink.Images)
	link := nodetest.NewLink(t, m)
	service := image.New(image.Config{
		Store: f.Store, Recorder: f.Recorder, Log: hclog.NewNullLogger(),
		Node: func(string) (machine.Link, error) { return link, nil },
	})

	// used notes when an image was used last.
	used := func(reference string, ago time.Duration) {
		ctx := namespaces.WithNamespace(t.Context(), cfg.Namespace)
		_, err := c.ImageService().Update(ctx, images.Image{
			Name: reference, Labels: map[string]string{"sh.deckhand.used": strconv.FormatInt(time.Now().Add(-ago).Unix(), 10)},
		}, "labels.sh.deckhand.used")
		require.NoError(t, err)
	}
	refs := map[string]string{}
	ids := map[string]string{}
	for _, name := range []string{"queued", "paused", "ended", "nobody", "recent"} {
		tag, digest := r.Push(t, "team/"+name+":1", imagetest.Busybox(t))
		_, err := m.Images().Pull(t.Context(), digest, nodeimage.Way{}, nil)
		require.NoError(t, err)
		refs[name] = digest
		used(digest, 15*24*time.Hour)
		if name == "nobody" || name == "recent" {
			continue
		}
		one := f.Submit(f.Agent(name, persona.ScopeTask), "ann", nil)
		_, sum, _ := strings.Cut(digest, "@")
		f.Exec("UPDATE tasks SET node_id = $2, image = $3, image_digest = $4 WHERE id = $1", one.ID, node, tag, sum)
		ids[name] = one.ID
	}
	used(refs["recent"], 13*24*time.Hour)
	f.Exec("UPDATE tasks SET state = 'paused' WHERE id = $1", ids["paused"])
	f.Exec("UPDATE tasks SET state = 'cancelled', finished_at = now() WHERE id = $1", ids["ended"])

	there := func() (out []string) {
		all, err := m.Images().List(t.Context())
		require.NoError(t, err)
		for _, one := range all {
			for name, digest := range refs {
				if digest == one.Reference {
					out = append(out, name)
				}
			}
		}
		return out
	}
	require.NoError(t, service.Collect(t.Context()))
	require.ElementsMatch(t, []string{"queued", "paused", "recent"}, there())

	row, err := f.Store.NodeByID(t.Context(), node)
	require.NoError(t, err)
	_, kept, err := service.List(t.Context(), row)
	require.NoError(t, err)
	require.Equal(t, map[string]image.Kept{
		refs["queued"]: {Tasks: 1, TaskIDs: []string{ids["queued"]}}, refs["paused"]: {Tasks: 1, TaskIDs: []string{ids["paused"]}},
	}, kept)

	f.Exec("UPDATE nodes SET pressure = 'too little disk' WHERE id = $1", node)
	require.NoError(t, service.Collect(t.Context()))
	require.ElementsMatch(t, []string{"queued", "paused"}, there())
	f.Exec("UPDATE tasks SET state = 'cancelled', finished_at = now()")
	require.NoError(t, service.Collect(t.Context()))
	require.Empty(t, there())
}
