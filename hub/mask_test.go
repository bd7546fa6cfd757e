package hub_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An update with a mask changes the fields that the mask names, and keeps the others.
func TestAnUpdateWithAMaskChangesItsFields(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("walker", scripted("walker"))
	mask := func(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

	made := do(t, r.user.Triggers.CreateTrigger, &deckhandv1.CreateTriggerRequest{
		Name: "hourly", AgentId: "walker", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_CRON, Spec: &deckhandv1.TriggerSpec{Goal: "walk", Priority: 7, Cron: &deckhandv1.CronSpec{Schedule: "0 * * * *"}},
	}).GetTrigger()
	body := map[string]any{"spec": map[string]any{"goal": "run"}, "updateMask": "goal"}
	res, text := restCall(t, http.MethodPatch, r.URL()+"/v1/triggers/"+made.GetId(), r.AdminToken, body, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	var updated struct{ Trigger struct{ Spec map[string]any } }
	require.NoError(t, json.Unmarshal(text, &updated))
	require.Equal(t, "run", updated.Trigger.Spec["goal"])
	require.EqualValues(t, 7, updated.Trigger.Spec["priority"])
	require.NotNil(t, updated.Trigger.Spec["cron"])
	cleared := do(t, r.user.Triggers.UpdateTrigger, &deckhandv1.UpdateTriggerRequest{TriggerId: made.GetId(), Spec: &deckhandv1.TriggerSpec{}, UpdateMask: mask("priority")}).GetTrigger()
	require.EqualValues(t, "run", cleared.GetSpec().GetGoal())
	require.Zero(t, cleared.GetSpec().GetPriority(), "the default")
	refuses(t, connect.CodeInvalidArgument, r.user.Triggers.UpdateTrigger, &deckhandv1.UpdateTriggerRequest{TriggerId: made.GetId(), Spec: &deckhandv1.TriggerSpec{}, UpdateMask: mask("colour")})

	destination := do(t, r.user.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{Name: "bus", Spec: &deckhandv1.DestinationSpec{
		Events: []string{"approvals"}, To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}},
	}}).GetDestination()
	destination = do(t, r.user.Destinations.UpdateDestination, &deckhandv1.UpdateDestinationRequest{
		DestinationId: destination.GetId(), Spec: &deckhandv1.DestinationSpec{Events: []string{"failures"}}, UpdateMask: mask("events"),
	}).GetDestination()
	require.Equal(t, []string{"failures"}, destination.GetSpec().GetEvents())
	require.NotNil(t, destination.GetSpec().GetNats())
	for _, spec := range []*deckhandv1.DestinationSpec{nil, {}, {Events: []string{"NO"}, To: destination.GetSpec().GetTo()}} {
		refuses(t, connect.CodeInvalidArgument, r.user.Destinations.UpdateDestination, &deckhandv1.UpdateDestinationRequest{DestinationId: destination.GetId(), Spec: spec})
	}

	do(t, r.user.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
		Name: "api", Kind: "bearer", Hosts: []string{"api.example.com"}, Methods: []string{"GET"}, Agents: []string{"walker"}, Value: &deckhandv1.CredentialValue{Token: "a-long-token-of-a-test-51"},
	})
	changed := do(t, r.user.Credentials.UpdateCredential, &deckhandv1.UpdateCredentialRequest{Name: "api", Paths: []string{"/v1/**"}, UpdateMask: mask("paths")}).GetCredential()
	require.Equal(t, []string{"/v1/**"}, changed.GetPaths())
	require.Equal(t, []string{"GET"}, changed.GetMethods())
	require.Equal(t, []string{"walker"}, changed.GetAgents())
	require.Equal(t, []string{"api.example.com"}, changed.GetHosts())
	refuses(t, connect.CodeInvalidArgument, r.user.Credentials.UpdateCredential, &deckhandv1.UpdateCredentialRequest{Name: "api", UpdateMask: mask("hosts")})
}
