package knowledge_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/hub/egress/authority"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// refusing is a node that makes no jail, or none of whose commands run.
type refusing struct {
	machine.Link
	nodev1.JailServiceClient
	nodev1.ExecServiceClient

	full   bool
	ensure func(spec *nodev1.JailSpec)
}

func (n *refusing) Jails() nodev1.JailServiceClient { return n }
func (n *refusing) Exec() nodev1.ExecServiceClient  { return n }

func (n *refusing) EnsureJail(_ context.Context, in *nodev1.EnsureJailRequest, _ ...grpc.CallOption) (*nodev1.EnsureJailResponse, error) {
	n.ensure(in.GetSpec())
	if n.full {
		return nil, status.Error(codes.ResourceExhausted, "no memory is left")
	}
	return &nodev1.EnsureJailResponse{}, nil
}

func (n *refusing) RemoveJail(context.Context, *nodev1.RemoveJailRequest, ...grpc.CallOption) (*nodev1.RemoveJailResponse, error) {
	return &nodev1.RemoveJailResponse{}, nil
}

func (n *refusing) StartExec(context.Context, *nodev1.StartExecRequest, ...grpc.CallOption) (*nodev1.StartExecResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "commands do not run here")
}

// A node that makes no jail does not keep the next one from reading a repository: that has an
// authority whose key the hub has. However a sync ends, no authority is left, and nodes that are too
// old say so.
func TestEachNodeThatIsTriedHasAnAuthority(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "admin")
	v, by := visibility.As(tasktest.Org, "ann", "admin"), tasktest.By("ann")
	keys, err := vault.Open(filepath.Join(t.TempDir(), "keyset.json"))
	require.NoError(t, err)
	authorities := authority.New(f.Store, keys)
	first, second := f.Node("a"), f.Node("b")
	var mu sync.Mutex
	asked := map[string]int{}
	link := func(id string) (machine.Link, error) {
		return &refusing{full: id == first, ensure: func(spec *nodev1.JailSpec) {
			mu.Lock()
			defer mu.Unlock()
			asked[id]++
			if assert.NotEmpty(t, spec.GetEgress().GetAuthorities()) {
				_, err := authorities.Key(t.Context(), tasktest.Org, spec.GetJailId(), spec.GetEgress().GetAuthorities()[0])
				assert.NoError(t, err, "the key for node %s", id)
			}
		}}, nil
	}
	mask := &redact.Redactor{}
	k := knowledge.New(knowledge.Config{
		Store: f.Store, Recorder: f.Recorder, Redact: mask, Nodes: node.New(f.Store, f.Recorder, mask, time.Hour), Node: link, Authorities: authorities,
		Role: func(context.Context, *db.Queries, string, string, string) (string, error) { return "admin", nil }, Log: hclog.NewNullLogger(),
	})
	require.NoError(t, k.Start(t.Context()))
	defer k.Stop()
	id, err := k.Create(t.Context(), v, scope.Scope{Kind: scope.User}, "docs", "", by)
	require.NoError(t, err)
	_, _, err = k.Add(t.Context(), v, id, knowledge.Source{Kind: knowledge.Git, URL: "https://git.example.com/docs.git"}, "admin", by)
	require.NoError(t, err)
	fails := func() string {
		var begun db.KnowledgeSync
		require.Eventually(t, func() bool {
			begun, err = k.Sync(t.Context(), v, id, by)
			return err == nil
		}, waittest.Limit(20*time.Second), 20*time.Millisecond, "a sync to begin")
		var last *db.KnowledgeSync
		require.Eventually(t, func() bool {
			last, err = k.LastSync(t.Context(), tasktest.Org, id)
			return err == nil && last != nil && last.ID == begun.ID && last.State == knowledge.Failed
		}, waittest.Limit(20*time.Second), 20*time.Millisecond, "the sync to end")
		var left int
		require.NoError(t, f.SQL.QueryRow(t.Context(), "SELECT count(*) FROM jail_authorities").Scan(&left))
		require.Zero(t, left)
		return last.Error
	}
	f.Exec("UPDATE nodes SET capability = 99")
	require.Contains(t, fails(), "the repository cannot be cloned")
	require.Equal(t, map[string]int{first: 3, second: 1}, asked)
	f.Exec("UPDATE nodes SET capability = 1")
	require.Contains(t, fails(), "is too old")
	f.Exec("UPDATE node_sessions SET connected = false")
	require.Contains(t, fails(), "no node is connected")
}
