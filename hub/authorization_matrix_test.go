package hub_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// procedures returns every method that the hub's address serves.
func procedures() []protoreflect.MethodDescriptor {
	var out []protoreflect.MethodDescriptor
	for _, pkg := range []protoreflect.FullName{"deckhand.v1", "deckhand.enrollment.v1"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for j := range methods.Len() {
					out = append(out, methods.Get(j))
				}
			}
			return true
		})
	}
	slices.SortFunc(out, func(a, b protoreflect.MethodDescriptor) int { return strings.Compare(path(a), path(b)) })
	return out
}

func path(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// call sends a JSON request and answers the error's code ("" for none) and the
// whole body.
func call(t *testing.T, url, token string, m protoreflect.MethodDescriptor, body map[string]any) (code, text string) {
	t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return callWith(t, url, header, m, body)
}

// callWith is call with headers of the caller's choice.
func callWith(t *testing.T, url string, header http.Header, m protoreflect.MethodDescriptor, body map[string]any) (code, text string) {
	t.Helper()
	return callOver(t, url, nil, header, m, body)
}

// callOver is callWith over TLS, with the certificate of the caller's choice.
func callOver(t *testing.T, url string, secure *tls.Config, header http.Header, m protoreflect.MethodDescriptor, body map[string]any) (code, text string) {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	kind := "application/json"
	streams := m.IsStreamingServer() || m.IsStreamingClient()
	// Streams both ways need HTTP/2.
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(m.IsStreamingClient() && secure == nil)
	protocols.SetHTTP2(m.IsStreamingClient() && secure != nil)
	protocols.SetHTTP1(!m.IsStreamingClient())
	if streams {
		kind = "application/connect+json"
		data = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...) //nolint:gosec // small
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path(m), bytes.NewReader(data))
	require.NoError(t, err)
	req.Header = header.Clone()
	req.Header.Set("Content-Type", kind)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: secure.Clone()}
	defer transport.CloseIdleConnections()
	client := http.Client{Timeout: 20 * time.Second, Transport: transport}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	var refused struct{ Code string }
	if !streams {
		if res.StatusCode != http.StatusOK {
			require.NoError(t, json.Unmarshal(all, &refused), "%s", all)
		}
		return refused.Code, string(all)
	}
	text = string(all)
	for len(all) >= 5 {
		n := binary.BigEndian.Uint32(all[1:])
		if all[0]&2 != 0 {
			var end struct{ Error struct{ Code string } }
			require.NoError(t, json.Unmarshal(all[5:5+n], &end))
			refused.Code = end.Error.Code
		}
		all = all[5+n:]
	}
	return refused.Code, text
}

// Every procedure has a rule, and no rule is for nothing.
func TestEveryProcedureHasARule(t *testing.T) {
	t.Parallel()
	for _, m := range procedures() {
		_, ok := auth.RuleOf(path(m))
		require.True(t, ok, "%s has no rule in hub/identity/auth/rules.go", path(m))
	}
}

// others are the objects of an organisation that the caller is not of.
type others struct {
	org, agent, task, step, node, worker, exec, item, hold, trigger, delivery string
	destination, notification, session, user, team, apiToken, rule, memory    string
	collection, source, passage, pattern, proposal                            string
	token                                                                     string // its administrator's
	lease                                                                     string
}

// ids are those of all objects that only their organisation knows.
func (o others) ids() []string {
	return []string{o.org, o.agent, o.task, o.step, o.node, o.exec, o.item, o.hold, o.trigger, o.delivery,
		o.destination, o.notification, o.rule, o.session, o.user, o.team, o.apiToken, o.memory, o.collection, o.source, o.pattern, o.proposal}
}

// request fills a request with another organisation's ids, by the names of its
// fields, and with something valid elsewhere.
func (o others) request(m protoreflect.MessageDescriptor) map[string]any {
	out := map[string]any{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		switch name := string(f.Name()); name {
		case "agent_id":
			if m.Name() != "GetEstimateRequest" && m.Name() != "TestTriggerRequest" { // they take one of two
				out[name] = o.agent
			}
		case "object_id":
			switch m.Name() {
			case "KillRequest":
				out[name] = o.task
			case "GetBudgetRequest", "SetBudgetRequest":
				out[name] = o.task
			}
		case "task_id":
			if f.ContainingOneof() == nil {
				out[name] = o.task
			}
		case "task_ids":
			out[name] = []string{o.task}
		case "step_id":
			out[name] = o.step
		case "pointer":
			out[name] = "/command"
		case "number":
			if m.Name() == "ReadInboxAttachmentRequest" {
				out[name] = 1
			}
		case "job_id":
			out[name] = "job_1"
		case "node_id":
			out[name] = o.node
		case "worker_id":
			out[name] = o.worker
		case "exec_id":
			out[name] = o.exec
		case "item_id":
			out[name] = o.item
		case "rule_id":
			out[name] = o.rule
		case "pattern_id":
			out[name] = o.pattern
		case "goal":
			if m.Name() == "MatchPatternsRequest" {
				out[name] = "walk"
			}
		case "proposal_id":
			out[name] = o.proposal
		case "subject":
			out[name] = "FEEDBACK_SUBJECT_TASK"
		case "subject_id":
			out[name] = o.task
		case "verdict":
			if m.Name() == "GiveFeedbackRequest" {
				out[name] = "FEEDBACK_VERDICT_APPROVE"
			}
		case "skip":
			out[name] = map[string]any{}
		case "begin":
			out[name] = o.request(f.Message())
		case "trigger_id":
			out[name] = o.trigger
		case "delivery_id":
			out[name] = o.delivery
		case "destination_id":
			if f.ContainingOneof() == nil {
				out[name] = o.destination
			}
		case "notification_id":
			out[name] = o.notification
		case "session_id":
			out[name] = o.session
		case "user_id":
			out[name] = o.user
		case "team_id":
			out[name] = o.team
		case "token_id":
			out[name] = o.apiToken
		case "collection_id":
			out[name] = o.collection
		case "source_id":
			out[name] = o.source
		case "passage_id":
			out[name] = o.passage
		case "source":
			if m.Name() == "AddSourceRequest" {
				out[name] = map[string]any{"kind": "KNOWLEDGE_SOURCE_KIND_UPLOAD"}
			}
		case "password":
			if f.Kind() == protoreflect.StringKind {
				out[name] = "correct horse battery"
			}
		case "what":
			if out[name] = "NodeService"; m.Name() == "DeleteAccessRuleRequest" {
				out[name] = "admin"
			}
		case "limits":
			if m.Name() == "SetTokenLimitsRequest" {
				out[name] = map[string]any{}
			}
		case "networks":
			out[name] = []string{"192.0.2.0/24", "127.0.0.0/8"} // where the walk comes from
		case "role":
			out[name] = "basic"
		case "kind":
			if m.Name() == "CreateTriggerRequest" {
				out[name] = "TRIGGER_KIND_MANUAL"
			}
		case "spec":
			if m.Name() != "TestTriggerRequest" && f.Message().Name() == "TriggerSpec" {
				out[name] = map[string]any{}
			}
			if f.Message().Name() == "DestinationSpec" {
				out[name] = map[string]any{"agents": []string{o.agent}, "nats": map[string]any{}}
			}
		case "passkey_id":
			out[name] = "passkey_1"
		case "device_id":
			out[name] = "dest_1"
		case "endpoint":
			out[name] = "https://push.example.com/1"
		case "p256dh":
			out[name] = "BFDtFoMrsA8-fypxEJbxW3s69UMEBr_huaNAFIP4G8mnI6mfDNCN8cc03RQ5P4Zp_1qGW9GaG-lX37gfG_PNeWA"
		case "auth":
			out[name] = "AAAAAAAAAAAAAAAAAAAAAA"
		case "challenge_id":
			out[name] = "pkc_1"
		case "credential_json":
			out[name] = "{}"
		case "delete_passkey_id":
			out[name] = "passkey_1"
		case "rules":
			if f.Cardinality() != protoreflect.Repeated && f.ContainingOneof() == nil && f.Kind() == protoreflect.MessageKind && f.Message().Name() == "PasskeyRules" {
				out[name] = map[string]any{}
			}
		case "hold_id":
			out[name] = o.hold
		case "memory_id":
			out[name] = o.memory
		case "memory_ids":
			out[name] = []string{o.memory}
		case "versions":
			if m.Name() == "ConfirmMemoriesRequest" {
				out[name] = []int{1}
			}
		case "key":
			if m.Name() == "SetMemoryRequest" {
				out[name] = "walk"
			}
		case "type":
			if m.Name() == "SetMemoryRequest" {
				out[name] = "MEMORY_TYPE_FACT"
			}
		case "scope":
			out[name] = "KILL_SCOPE_TASK"
			if f.Kind() == protoreflect.MessageKind {
				out[name] = map[string]any{"kind": "SCOPE_KIND_USER"}
				continue
			}
			if f.Kind() == protoreflect.StringKind {
				out[name] = "task"
			}
			if f.Kind() == protoreflect.MessageKind {
				out[name] = map[string]any{"kind": "SCOPE_KIND_USER"}
			}
		case "by":
			out[name] = "agent"
		case "provider":
			out[name] = "anthropic"
		case "model":
			out[name] = "claude-sonnet-4-5"
		case "open":
			out[name] = o.request(f.Message())
		case "from", "to":
			if f.Kind() == protoreflect.MessageKind {
				out[name] = map[string]any{"task_id": o.task}
			}
		case "paths":
			out[name] = []string{"file_list"}
		case "entries":
			out[name] = []any{map[string]any{"path": "file_list", "type": "file"}}
			if m.Name() == "ImportMemoriesRequest" {
				out[name] = []any{map[string]any{"type": "MEMORY_TYPE_FACT", "key": "walked", "value": "x", "confidence": 1}}
			}
		case "size":
			out[name] = map[string]any{"rows": 24, "cols": 80}
		case "argv":
			out[name] = []string{"true"}
		case "lease":
			out[name] = map[string]any{"task_id": o.task, "attempt": 1, "token": o.lease}
		case "attempt", "iteration", "turn", "slots":
			if f.Kind() == protoreflect.Int32Kind {
				out[name] = 1
			} else {
				out[name] = map[string]any{"turn": 1, "provider": "script", "model": "scripted"}
			}
		case "checkpoint":
			out[name] = map[string]any{"iteration": 1, "state": map[string]any{}}
		case "events":
			if f.Kind() == protoreflect.MessageKind {
				out[name] = []any{map[string]any{"type": "thinking"}}
			}
		case "name":
			switch out[name] = "file-list"; m.Name() {
			case "ConnectProviderRequest":
				out[name] = "searxng"
			case "SetPlanRequest":
				out[name] = "starter"
			}
		case "host":
			if m.Name() == "SetRegistryRequest" || m.Name() == "DeleteRegistryRequest" {
				out[name] = "registry.example.com"
			}
		case "reference":
			out[name] = "registry.example.com/team/app:1"
		case "value":
			if m.Name() == "SetMemoryRequest" {
				out[name] = "x"
				continue
			}
			if f.Kind() == protoreflect.MessageKind && f.Message().Name() == "CredentialValue" {
				out[name] = map[string]any{"token": "dGhlIHdhbGs9k2Lq"}
			}
		case "public_keys":
			out[name] = publicKey
		case "base_url":
			out[name] = "http://127.0.0.1:1"
		case "tool", "text", "path", "join_token", "reason", "pattern":
			switch out[name] = "file_list"; m.Name() {
			case "SetSignatureRuleRequest":
				out[name] = "registry.example.com/team/*"
			case "RemoveDocumentRequest":
				out[name] = "walk.md"
			case "ListMachineFilesRequest", "ReadMachineFileRequest":
				out[name] = "/file_list"
			}
		case "arguments_json":
			out[name] = "{}"
		case "query":
			if m.Name() == "SearchHistoryRequest" || m.Name() == "SearchKnowledgeRequest" {
				out[name] = "file_list"
			}
		case "format":
			out[name] = "EXPORT_FORMAT_TAR"
		case "state":
			out[name] = "TASK_STATE_SUCCEEDED"
		case "assign_to":
			if m.Name() == "AssignTaskRequest" {
				out[name] = "none"
			}
		case "first":
			out[name] = true
		case "confirm":
			out[name] = "walker"
		case "tasks":
			if f.Kind() == protoreflect.StringKind {
				out[name] = "cancel"
			}
		case "visibility":
			if m.Name() == "TransferAgentRequest" || m.Name() == "SharePatternRequest" {
				out[name] = "private"
			}
		case "version":
			if m.Name() == "RestoreAgentVersionRequest" {
				out[name] = 1
			}
		case "csr":
			out[name] = "AAAA"
		case "certificate_pem":
			out[name] = "-----BEGIN CERTIFICATE-----"
		case "markdown":
			out[name] = "---\nname: x\n---\n"
		}
	}
	return out
}

// unfiltered can be called without naming an object: they make one of the
// caller's own, or list the caller's own. Their answers are searched for the
// other's ids.
var unfiltered = []string{"ApplyAgent", "ListAgents", "ListTasks", "ListNodes", "UpgradeNodes", "ListNodeRollouts", "StopNodeRollout", "CreateJoinToken", "RegisterWorker", "Watch", "ListWorkers",
	"ListNodeLocks", "ListNodeExecs", "ListInbox", "ListHolds", "ListAuditEntries", "ExportAudit", "VerifyAudit", "SearchHistory", "ListCollections", "CreateCollection", "SearchKnowledge", "ListTriggers", "ListDeliveries", "GetAgentGraph", "ListAgentSummaries",
	"CreateCredential", "ListCredentials", "ListCredentialRequests", "ListDestinations", "ListNotifications", "ListAllowRules", "GetSession", "ListSessions", "CreateLoginCode",
	"ListAccessRules", "SetAccessRule", "CreateUser", "ListUsers", "CreateTeam", "ListTeams", "ListTokens",
	"ConnectProvider", "ListProviders", "ListPrices", "GetProviderUsage", "GetProviderCatalogue", "SetPrice", "ListBudgets", "GetUsageReport",
	"ListPasskeys", "GetPasskeyRules", "GetPushKey", "ListPushDevices", "CreatePushDevice", "GetTokenLimits", "SetTokenLimits", "GetPlan", "SetPlan", "SetQuota", "GetQuotaHistory", "SetAllowedModels", "SetCallRate",
	"SetRegistry", "ListRegistries", "GetTaskSharing", "SetTaskSharing", "GetImageRules", "SetImageRules", "SetSignatureRule", "ListSignatureRules",
	"Diagnose", "GetRetention", "SetRetention", "ListLegalHolds", "SetMemory", "ListMemories", "RecallMemories", "ImportMemories", "ListPatterns", "SetPatternSettings", "GetKnowledgeEmbedding", "SetKnowledgeEmbedding", "ListProposals"}

// Every RPC without identity, with a wrong one, with one of the wrong
// kind or too small a role, and with another organisation's objects.
func TestEveryProcedureRefusesTheWrongIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s := openStore(t, h)
	victim, intruder := organisation(t, h, s, "victim"), organisation(t, h, s, "intruder")
	viewer := userToken(t, s, intruder.org, "viewer", "viewer")
	workerToken, err := auth.NewTokens(s).Create(t.Context(), intruder.org, auth.Worker, "", "w", 0)
	require.NoError(t, err)
	expired := userToken(t, s, intruder.org, "late", "admin")
	_, err = auth.NewTokens(s).Identify(t.Context(), "Bearer "+expired)
	require.NoError(t, err)
	require.NoError(t, auth.NewTokens(s).Revoke(t.Context(), intruder.org, auth.User, "late"))

	cookie := login(t, h, viewer)
	scoped := func(name string, scope auth.Scope) string {
		admin, err := s.FindUsers(t.Context(), db.FindUsersParams{OrgID: intruder.org, Ref: "admin"})
		require.NoError(t, err)
		secret := auth.NewSecret(auth.User)
		require.NoError(t, s.CreateToken(t.Context(), db.CreateTokenParams{
			ID: ident.New("token"), OrgID: intruder.org, Kind: "user", UserID: &admin[0].ID, Name: name, Hash: ident.Hash(secret), Scope: scope.Encode(),
		}))
		return secret
	}
	onlyReads, onlyViews := scoped("reads", auth.Scope{ReadOnly: true}), scoped("views", auth.Scope{Role: "viewer"})
	onlyEvents, onlyTasks := scoped("events", auth.Scope{Services: []string{"EventService"}}), scoped("tasks", auth.Scope{Services: []string{"TaskService"}})

	for _, m := range procedures() {
		t.Run(string(m.Name()), func(t *testing.T) {
			rule, _ := auth.RuleOf(path(m))
			body := victim.request(m.Input())
			if rule.Public {
				code, text := call(t, h.URL(), "", m, body)
				if strings.Contains(" "+whose[anybody]+" ", " "+string(m.Name())+" ") {
					for _, id := range victim.ids() {
						require.NotContains(t, text, id)
					}
					return
				}
				require.Contains(t, []string{"invalid_argument", "permission_denied"}, code, "garbage must be refused")
				return
			}
			for what, token := range map[string]string{"no token": "", "a made-up token": ident.Secret("dhu"), "a revoked token": expired} {
				code, _ := call(t, h.URL(), token, m, body)
				require.Equal(t, "unauthenticated", code, what)
			}
			// With a session's cookie all the same holds, and besides the request
			// has to be of a page of this hub.
			for what, header := range map[string]http.Header{
				"a cookie, and nothing that says where from": {"Cookie": {cookie}},
				"a cookie, from another site's page":         {"Cookie": {cookie}, "Sec-Fetch-Site": {"cross-site"}},
				"a cookie, from another host's page":         {"Cookie": {cookie}, "Origin": {"https://evil.example"}},
				"a cookie, from a neighbour's page":          {"Cookie": {cookie}, "Sec-Fetch-Site": {"same-site"}},
			} {
				code, _ := callWith(t, h.URL(), header, m, body)
				require.Equal(t, "permission_denied", code, what)
			}
			page := http.Header{"Cookie": {auth.CookieName + "=" + ident.Secret("dhs")}, "Sec-Fetch-Site": {"same-origin"}}
			code, _ := callWith(t, h.URL(), page, m, body)
			require.Equal(t, "unauthenticated", code, "a made-up cookie")
			page.Set("Cookie", cookie)
			if code, _ = callWith(t, h.URL(), page, m, body); rule.Kind == auth.Worker || rule.Role != "viewer" {
				require.Equal(t, "permission_denied", code, "a viewer's cookie")
			} else {
				require.NotContains(t, []string{"permission_denied", "unauthenticated"}, code, "a viewer's cookie, from a page of this hub")
			}
			if rule.Operator {
				// An administrator of any organisation but the first.
				code, _ := call(t, h.URL(), intruder.token, m, body)
				require.Equal(t, "permission_denied", code, "an administrator who is no operator")
				return
			}
			wrongKind, own := workerToken, intruder.token
			if rule.Kind == auth.Worker {
				wrongKind, own = intruder.token, workerToken
			}
			code, _ = call(t, h.URL(), wrongKind, m, body)
			require.Equal(t, "permission_denied", code, "a token of the wrong kind")
			if rule.Kind == auth.User && rule.Role != "viewer" {
				code, _ := call(t, h.URL(), viewer, m, body)
				require.Equal(t, "permission_denied", code, "a viewer")
				code, _ = call(t, h.URL(), onlyViews, m, body)
				require.Equal(t, "permission_denied", code, "an administrator's token for viewing")
			}
			// A token does no more than its scope says, whoever's it is.
			if service := string(m.Parent().Name()); rule.Kind == auth.User && service != "SessionService" {
				if !auth.Reads(path(m)) {
					code, _ := call(t, h.URL(), onlyReads, m, body)
					require.Equal(t, "permission_denied", code, "an administrator's token for reading")
				}
				elsewhere := onlyEvents
				if service == "EventService" {
					elsewhere = onlyTasks
				}
				code, _ := call(t, h.URL(), elsewhere, m, body)
				require.Equal(t, "permission_denied", code, "an administrator's token for another service")
			}
			if slices.Contains(unfiltered, string(m.Name())) {
				delete(body, "agent_id")
				delete(body, "task_ids")
				delete(body, "task_id")
				delete(body, "node_id")
				delete(body, "trigger_id")
				delete(body, "destination_id")
				_, text := call(t, h.URL(), own, m, body)
				for _, id := range victim.ids() {
					require.NotContains(t, text, id)
				}
				if m.Name() == "ListWorkers" {
					require.NotContains(t, text, victim.worker)
					return
				}
				if body = victim.request(m.Input()); body["agent_id"] == nil && body["task_ids"] == nil && body["node_id"] == nil && body["trigger_id"] == nil &&
					body["destination_id"] == nil {
					return
				}
			}
			code, text := call(t, h.URL(), own, m, body)
			// A lease of another organisation is refused like any stale one.
			require.Contains(t, []string{"not_found", "failed_precondition"}, code, "another organisation's objects: %s", text)
		})
	}

	// The same through the other arms of the requests' oneof.
	for _, m := range procedures() {
		if m.Parent().Name() != "FileService" {
			continue
		}
		body := victim.request(m.Input())
		delete(body, "agent_id")
		delete(body, "jail")
		body["task_id"] = victim.task
		code, text := call(t, h.URL(), intruder.token, m, body)
		require.Equal(t, "not_found", code, "%s: %s", m.Name(), text)
	}

	victim.untouched(t, s)
}
