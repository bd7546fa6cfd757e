package hub_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An agent whose provider is not connected is given no task; from a
// key to a model that is called with it, priced, counted and disconnected; the
// key is in no answer. What waits for a provider says so.
func TestAProviderFromKeyToUsage(t *testing.T) {
	t.Parallel()
	const key = "canary-of-the-provider-0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Api-Key") != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"message","usage":{"input_tokens":1000,"output_tokens":100}}`))
	}))
	t.Cleanup(server.Close)
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("claude", anthropicPersona("claude"))
	_, err := r.user.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "claude", Goal: "go on"})
	require.Equal(t, fault.NoCredentials, fault.As(err).Code)
	require.ErrorContains(t, err, "agent claude cannot run: provider anthropic is not connected")
	require.Equal(t, "deckhand provider connect anthropic", fault.As(err).Fix)

	put := func(key string) (*deckhandv1.Provider, error) {
		res, err := r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{Name: "anthropic", Key: key, BaseUrl: server.URL})
		if err != nil {
			return nil, err
		}
		return res.GetProvider(), nil
	}
	_, err = put("a-wrong-key-0123456789")
	require.Equal(t, fault.CredentialInvalid, fault.As(err).Code)
	connected, err := put(key)
	require.NoError(t, err)
	require.Equal(t, "6789", connected.GetKeyEndsIn())
	require.NotNil(t, connected.GetConnectedAt())
	require.NotContains(t, connected.String(), "canary")

	task := r.submit("claude")
	lease := r.begin(task.GetId(), 1)
	res, body := r.askModel(lease, 100)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	_, err = r.user.Providers.SetPrice(t.Context(), &deckhandv1.SetPriceRequest{Provider: "anthropic", Model: "claude-sonnet-4-5", Input: 0.5, Output: 1})
	require.NoError(t, err)
	res, body = r.askModel(lease, 100)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	usage, err := r.user.Providers.GetProviderUsage(t.Context(), &deckhandv1.GetProviderUsageRequest{})
	require.NoError(t, err)
	require.Len(t, usage.GetModels(), 1)
	model := usage.GetModels()[0]
	require.EqualValues(t, 2, model.GetCalls())
	require.EqualValues(t, 1000*3+100*15+1000/2+100, model.GetUsage().GetCostMicros())

	list, err := r.user.Providers.ListProviders(t.Context(), &deckhandv1.ListProvidersRequest{})
	require.NoError(t, err)
	require.NotNil(t, list.GetProviders()[0].GetLastUsedAt())
	// The catalogue has all that can be connected, with what they cost this month.
	for i, p := range do(t, r.user.Providers.GetProviderCatalogue, &deckhandv1.GetProviderCatalogueRequest{}).GetProviders() {
		require.Equal(t, provider.Connectable()[i], p.GetName())
		require.NotEmpty(t, p.GetTitle(), p.GetName())
		if p.GetName() == "anthropic" {
			require.Equal(t, "6789", p.GetConnected().GetKeyEndsIn())
			require.EqualValues(t, 2, p.GetCalls())
			require.Equal(t, model.GetUsage().GetCostMicros(), p.GetUsage().GetCostMicros())
			require.Equal(t, "https://docs.anthropic.com", p.GetDocsUrl())
			continue
		}
		require.Nil(t, p.GetConnected(), p.GetName())
		require.Zero(t, p.GetCalls(), p.GetName())
	}
	_, err = r.user.Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "anthropic"})
	require.NoError(t, err)
	res, body = r.askModel(lease, 100)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, body, "provider anthropic is not connected")
	require.Equal(t, string(fault.NoCredentials), res.Header.Get(fault.CodeHeader))
	_, err = r.workers.Workers.ReleaseTask(t.Context(), &deckhandv1.ReleaseTaskRequest{Lease: lease})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return r.task(task.GetId()).GetReason() == "provider anthropic is not connected: deckhand provider connect anthropic"
	}, patience, 10*time.Millisecond)
	_, err = put(key)
	require.NoError(t, err)
	r.begin(task.GetId(), 2)
	require.Len(t, r.audited("provider.connected"), 2)
	_, err = r.user.Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "anthropic"})
	require.NoError(t, err)
	require.Len(t, r.audited("provider.disconnected"), 2)

	_, err = r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{
		Name: "anthropic", Key: key, BaseUrl: server.URL, ExpiresAt: timestamppb.New(time.Now().Add(-time.Hour)),
	})
	require.ErrorContains(t, err, "in the past")
	_, err = r.as("ann", "advanced").Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "anthropic"})
	require.True(t, fault.Is(err, fault.Denied), "%v", err)
}

// Budgets are shown with their defaults, set, and set back.
func TestBudgetsAreSetAndShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker")
	list, err := r.user.Budgets.ListBudgets(t.Context(), &deckhandv1.ListBudgetsRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 50_000_000, list.GetBudgets()[0].GetLimitMicros())
	require.EqualValues(t, 500_000_000, list.GetBudgets()[1].GetLimitMicros())
	set := func(req *deckhandv1.SetBudgetRequest) (*deckhandv1.Budget, error) {
		res, err := r.user.Budgets.SetBudget(t.Context(), req)
		if err != nil {
			return nil, err
		}
		return res.GetBudget(), nil
	}
	b, err := set(&deckhandv1.SetBudgetRequest{Scope: "task", ObjectId: task.GetId(), Limit: &deckhandv1.SetBudgetRequest_LimitMicros{LimitMicros: 7}})
	require.NoError(t, err)
	require.EqualValues(t, 7, b.GetLimitMicros())
	b, err = set(&deckhandv1.SetBudgetRequest{Scope: "task", ObjectId: task.GetId(), Limit: &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}})
	require.NoError(t, err)
	require.EqualValues(t, 10_000_000, b.GetLimitMicros(), "the persona's")
	b, err = set(&deckhandv1.SetBudgetRequest{Scope: "organisation", Every: "day", Limit: &deckhandv1.SetBudgetRequest_Unlimited{Unlimited: true}})
	require.NoError(t, err)
	require.Nil(t, b.LimitMicros)
	require.Len(t, r.audited("budget.set"), 3)
	for _, c := range []struct {
		req  *deckhandv1.SetBudgetRequest
		says string
	}{
		{&deckhandv1.SetBudgetRequest{Scope: "organisation", Every: "day"}, "limit is missing"},
		{&deckhandv1.SetBudgetRequest{Scope: "user", ObjectId: "nobody", Every: "day", Limit: &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}}, "no user"},
		{&deckhandv1.SetBudgetRequest{Scope: "user", ObjectId: "admin", Limit: &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}}, "every is empty"},
		{&deckhandv1.SetBudgetRequest{Scope: "task", ObjectId: task.GetId(), Every: "day", Limit: &deckhandv1.SetBudgetRequest_Reset_{Reset_: true}}, "all time"},
	} {
		_, err := set(c.req)
		require.ErrorContains(t, err, c.says)
	}
}
