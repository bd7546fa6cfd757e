package hub_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An operator makes an organisation. It has its own people, nodes, workers and
// agents, of the same names as another one's, and neither sees the other.
func TestAnOrganisationOfItsOwn(t *testing.T) {
	t.Parallel()
	first := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	create := func(r *rig, name string) (*deckhandv1.CreateOrganisationResponse, error) {
		res, err := r.user.Organisations.CreateOrganisation(t.Context(), &deckhandv1.CreateOrganisationRequest{Name: name})
		if err != nil {
			return nil, err
		}
		return res, nil
	}
	made, err := create(first, "research")
	require.NoError(t, err)
	_, err = create(first, "research")
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	_, err = create(first, "No Name")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	admin := first.Client(t, made.GetToken())
	worker, err := admin.Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{Name: "w", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER})
	require.NoError(t, err)
	join, err := admin.Nodes.CreateJoinToken(t.Context(), &deckhandv1.CreateJoinTokenRequest{})
	require.NoError(t, err)
	second := joinedAs(t, first.Hub, nodetest.Config{}, made.GetToken(), worker.GetSecret(), join.GetToken())

	for _, r := range []*rig{first, second} {
		task := r.submit("walker")
		lease := r.begin(task.GetId(), 1)
		r.turn(lease, 1)
		r.finish(lease)
		list, err := r.user.Tasks.ListTasks(t.Context(), &deckhandv1.ListTasksRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetTasks(), 1)
		require.Equal(t, task.GetId(), list.GetTasks()[0].GetId())
		nodes, err := r.user.Nodes.ListNodes(t.Context(), &deckhandv1.ListNodesRequest{})
		require.NoError(t, err)
		require.Len(t, nodes.GetNodes(), 1)
		require.Equal(t, r.node.ID(), nodes.GetNodes()[0].GetId())
		require.Len(t, r.audited("organisation.created"), 1)
	}
	_, err = create(second, "mine")
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
	all, err := first.user.Organisations.ListOrganisations(t.Context(), &deckhandv1.ListOrganisationsRequest{})
	require.NoError(t, err)
	require.Len(t, all.GetOrganisations(), 2)
	research := all.GetOrganisations()[1]
	require.Equal(t, "research", research.GetName())
	require.EqualValues(t, 1, research.GetUsers())
	require.EqualValues(t, 1, research.GetNodes())
	require.EqualValues(t, 0, research.GetTasks())
}

// What a hub's operator lets an organisation have holds for versions that are
// applied from then on, and for tasks that start; another organisation is not
// touched, and only operators set them.
func TestAnOrganisationHasLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	set := func(l *deckhandv1.OrganisationLimits) *deckhandv1.Organisation {
		t.Helper()
		return do(t, r.user.Organisations.SetOrganisationLimits, &deckhandv1.SetOrganisationLimitsRequest{Name: "default", Limits: l}).GetOrganisation()
	}
	text := func(jail string) string {
		return strings.Replace(scripted("large"), "name: large\n", "name: large\n"+jail, 1)
	}
	apply := func(jail string) error {
		_, err := r.user.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
			Filename: "large.md", Markdown: text(jail), Script: "turns: []\n",
		})
		return err
	}
	require.NoError(t, apply("jail: {cpus: 4, memory: 8GiB, pids: 1000}\nworkspace: {size: 20GiB}\n"))
	got := set(&deckhandv1.OrganisationLimits{JailCpuMillis: proto.Int64(2000), JailMemoryBytes: proto.Int64(4 << 30)}).GetLimits()
	require.EqualValues(t, 2000, got.GetJailCpuMillis())
	got = set(&deckhandv1.OrganisationLimits{JailPids: proto.Int64(600), JailWorkspaceBytes: proto.Int64(10 << 30), UndoWindow: durationpb.New(time.Hour)}).GetLimits()
	require.EqualValues(t, 2000, got.GetJailCpuMillis(), "what is not given stays")
	for jail, says := range map[string]string{
		"jail: {cpus: 2.5}\n":                         "jail.cpus would be 2.5, and this organisation's jails may have 2 at most",
		"jail: {memory: 5GiB}\n":                      "jail.memory would be 5 GiB",
		"jail: {memory: 1GiB, max_memory: 4097MiB}\n": "jail.memory would be 4 GiB",
		"jail: {pids: 601}\n":                         "jail.pids would be 601",
		"workspace: {size: 11GiB}\n":                  "workspace.size would be 11 GiB",
	} {
		err := apply(jail)
		require.True(t, fault.Is(err, fault.Denied), "%s: %v", jail, err)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, apply("jail: {cpus: 2, memory: 4GiB, pids: 600}\n"))

	// A task of a version that was applied before is not given a jail.
	set(&deckhandv1.OrganisationLimits{JailPids: proto.Int64(100)})
	task := r.submit("walker")
	lease := r.claim(task.GetId(), 1).GetLease()
	_, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
	require.ErrorContains(t, err, "jail.pids would be 512")
	set(&deckhandv1.OrganisationLimits{JailPids: proto.Int64(0)})
	do(t, r.workers.Workers.StartTask, &deckhandv1.StartTaskRequest{Lease: lease})
	r.finish(lease)

	changes := do(t, r.user.Workspaces.ListChanges, &deckhandv1.ListChangesRequest{TaskId: task.GetId()})
	ended := r.task(task.GetId()).GetFinishedAt().AsTime()
	require.Equal(t, ended.Add(time.Hour), changes.GetUndoUntil().AsTime())
	set(&deckhandv1.OrganisationLimits{UndoWindow: durationpb.New(0)})
	changes = do(t, r.user.Workspaces.ListChanges, &deckhandv1.ListChangesRequest{TaskId: task.GetId()})
	require.Equal(t, ended.Add(workspace.DefaultWindow), changes.GetUndoUntil().AsTime())

	require.Len(t, r.audited("organisation.limited"), 5)
	refuses(t, connect.CodePermissionDenied, r.as("ann", "advanced").Organisations.SetOrganisationLimits, &deckhandv1.SetOrganisationLimitsRequest{
		Name: "default", Limits: &deckhandv1.OrganisationLimits{},
	})
	refuses(t, connect.CodeNotFound, r.user.Organisations.SetOrganisationLimits, &deckhandv1.SetOrganisationLimitsRequest{Name: "none", Limits: &deckhandv1.OrganisationLimits{}})
}
