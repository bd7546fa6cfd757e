package hub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const canary = "tok-canary-7f3K9qLm2"

func (r *rig) credential(name string, methods ...string) {
	r.t.Helper()
	do(r.t, r.user.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: name, Kind: "bearer", Hosts: []string{name + ".example.com"}, Methods: methods, Agents: []string{"pusher"},
		Value: &deckhandv1.CredentialValue{Token: canary},
	})
}

// bound returns the credentials that a jail's commands can use, with their methods.
func bound(spec *nodev1.JailSpec) map[string]string {
	out := map[string]string{}
	for _, b := range spec.GetEgress().GetBindings() {
		out[b.GetCredential()] = strings.Join(b.GetMethods(), ",")
	}
	return out
}

// A jail is created with the bindings of the credentials that the persona lists. When one is
// deleted, nodes are told, and the task goes on without it. A task that needs one that there is
// not fails as it begins.
func TestAJailHasTheBindingsOfItsPersonasCredentials(t *testing.T) {
	t.Parallel()
	seen := make(chan map[string]string, 10)
	var r *rig
	r = newRig(t, hubtest.Start(t, hubtest.Config(t)), func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		seen <- bound(r.node.Jail(spec.GetJailId()))
		return "it printed " + canary, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	r.credential("api", "GET", "POST")
	r.credential("other")
	r.apply("pusher", strings.Replace(scripted("pusher"), "limits:", "credentials: [api, other]\nlimits:", 1))
	run := func(lease *deckhandv1.Lease, n int32) *deckhandv1.Step {
		t.Helper()
		r.turn(lease, n)
		step, err := r.propose(lease, n, 0, "shell_exec", `{"command":"echo hello"}`)
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return done
	}
	task := r.submit("pusher")
	lease := r.begin(task.GetId(), 1)
	require.Equal(t, map[string]string{"api": "GET,POST", "other": ""}, bound(r.node.Jail(r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId()))))
	require.NotContains(t, run(lease, 1).GetObservation(), "canary", "the value is masked in what the model reads")
	require.Len(t, <-seen, 2)

	do(t, r.user.Credentials.DeleteCredential, &deckhandv1.DeleteCredentialRequest{Name: "other"})
	require.Equal(t, []string{"other"}, r.node.EndedCredentials())
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, run(lease, 2).GetState(), "commands that do not need it run")
	<-seen
	r.finish(lease)

	late := r.claim(r.submit("pusher").GetId(), 1).GetLease()
	_, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: late})
	e := fault.As(fault.FromConnect(err))
	require.NotNil(t, e, "%v", err)
	require.Equal(t, fault.CredentialRefused, e.Code)
	require.Contains(t, e.Message, "there is no credential other")
	for _, e := range r.events(task.GetId(), false) {
		text, err := protojson.Marshal(e)
		require.NoError(t, err)
		require.NotContains(t, string(text), "canary")
	}
}

// A run that is reviewed gets no credential for what may change something.
func TestAReviewedRunReadsOnlyWithItsCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.credential("all")
	r.credential("some", "GET", "POST")
	r.credential("writes", "POST", "DELETE")
	r.apply("pusher", strings.Replace(scripted("pusher"), "limits:", "mode: review\ncredentials: [all, some, writes]\nlimits:", 1))
	task := r.submit("pusher")
	r.begin(task.GetId(), 1)
	require.Equal(t, map[string]string{"all": "GET,HEAD,OPTIONS", "some": "GET"}, bound(r.node.Jail(r.sql("SELECT jail_id FROM tasks WHERE id = $1", task.GetId()))))
}

// A value that was stored through one hub is masked by every other, and nobody reads it back.
func TestEveryHubMasksAValue(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	first := hubtest.Start(t, cfg)
	beside := hubtest.Beside(t, cfg)
	hubtest.Start(t, beside)
	client := first.Client(t, first.AdminToken)
	do(t, client.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: "api", Kind: "bearer", Hosts: []string{"api.example.com"}, Value: &deckhandv1.CredentialValue{Token: canary},
	})
	org := beside.Redact.Org(auth.Operators)
	require.Eventually(t, func() bool { return org.Knows([]byte(canary)) }, waittest.Limit(20*time.Second), 20*time.Millisecond, "the other hub to learn the value")
	viewer := first.Client(t, userToken(t, openStore(t, first), auth.Operators, "vic", "viewer"))
	all := do(t, viewer.Credentials.ListCredentials, &deckhandv1.ListCredentialsRequest{})
	text, err := protojson.Marshal(all)
	require.NoError(t, err)
	require.Contains(t, string(text), "api.example.com")
	require.NotContains(t, string(text), "canary")
}

// A node that does not know credentials, or rules by method and path, would connect commands to
// the hosts without them: no attempt begins there, and the error names the node.
func TestATaskWithCredentialsIsNotStartedOnANodeThatIsTooOld(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.credential("api")
	shift(t, r.Hub, `UPDATE egress_credentials SET agents = '{pusher,late}' WHERE name = $1`, "api")
	for _, agent := range []string{"pusher", "late"} {
		r.apply(agent, strings.Replace(scripted(agent), "limits:", "credentials: [api]\nlimits:", 1))
	}
	r.apply("reader", strings.Replace(scripted("reader"), "limits:", "egress: {allow: [{host: api.example.com, http: [\"allow GET /v1/**\"]}]}\nlimits:", 1))
	start := func(agent string) error {
		lease := r.claim(r.submit(agent).GetId(), 1).GetLease()
		_, err := r.workers.Workers.StartTask(t.Context(), &deckhandv1.StartTaskRequest{Lease: lease})
		return err
	}
	shift(t, r.Hub, `UPDATE nodes SET capability = $2 WHERE id = $1`, r.node.ID(), nodelink.Credentials-1)
	for _, agent := range []string{"pusher", "reader"} {
		refusedFor(t, start(agent), fault.Precondition, "node sim cannot insert credentials, or decide about requests by method and path: its deckhand-node simulated is too old")
	}
	require.NoError(t, start("walker"), "others run there")

	// A node that reads what a path leaves out as the name of a method is refused, too.
	shift(t, r.Hub, `UPDATE egress_credentials SET paths = '{!/admin/**}' WHERE name = $1`, "api")
	shift(t, r.Hub, `UPDATE nodes SET capability = $2 WHERE id = $1`, r.node.ID(), nodelink.LeftOutPaths-1)
	refusedFor(t, start("late"), fault.Precondition, "node sim cannot leave paths out of a credential: its deckhand-node simulated is too old")
}
