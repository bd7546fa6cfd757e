package hub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/node/identity"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// reach says on whose objects those work whom a procedure's rule admits, which
// hub/identity/auth/rules.go has: by kind of caller and role.
type reach string

const (
	// byProof: callers who have what the request must hold, such as a join token.
	byProof reach = "by proof"
	// anybody: whoever asks, and it says nothing of anyone.
	anybody reach = "anybody"
	// leased: workers, on the tasks that they have a lease of.
	leased reach = "leased"
	// operators: administrators of the first organisation, on the hub itself.
	operators reach = "operators"
	// administrators, on all of their organisation.
	administrators reach = "administrators"
	// own: everybody on what is theirs, and administrators on all of their
	// organisation.
	own reach = "own"
	// personal: everybody on what is theirs; to an administrator nobody else's is there.
	personal reach = "personal"
	// shared: everybody on all of their organisation.
	shared reach = "shared"
)

// whose has every procedure of the API. TestTrigger is in it as it is called with a
// delivery; with a payload of one's own it is shared, see
// TestDeliveriesAreSeenByWhomTheyConcern.
var whose = map[reach]string{
	anybody: "GetLoginMethods BeginPasskeyLogin",
	byProof: "CreateSession EnrollNode RenewCertificate",
	leased: `RegisterWorker ClaimTask RenewLeases StartTask RecordEvents PublishThinking RecordTurn ProposeStep ExecuteStep SaveCheckpoint
		FinishTask YieldTask ReleaseTask`,
	operators: "GetVault RotateVault CreateOrganisation ListOrganisations SetOrganisationLimits",
	administrators: `GetMachine ReadJournal ListMachineFiles ReadMachineFile Diagnose GetRetention SetRetention SetLegalHold ListLegalHolds DrainWorker UndrainWorker ReleaseHold ListAuditEntries ExportAudit VerifyAudit ApplyPolicy ReplayPolicy ConnectProvider DisconnectProvider
		SetPrice SetBudget SetPlan SetQuota SetAllowedModels SetCallRate CreateDestination UpdateDestination GetDestination ListDestinations TestDestination
		EnableDestination DisableDestination RotateDestinationSecret DeleteDestination ListNotifications GetNotification RedriveNotifications CreateJoinToken RevokeNode UpgradeNodes ListNodeRollouts StopNodeRollout
		PullImage ImportImage PruneImages FetchPack ImportPack PrunePacks SetRegistry ListRegistries DeleteRegistry SetImageRules SetSignatureRule DeleteSignatureRule DrainNode UndrainNode LockNode UnlockNode CreateUser UpdateUser CreateTeam UpdateTeam DeleteTeam AddTeamMember RemoveTeamMember
		CreateCredential UpdateCredential RotateCredential DeleteCredential TestCredential SetTokenLimits ListAccessRules SetAccessRule SetPasskeyRules DeleteAccessRule SetTaskSharing SetPatternSettings SetKnowledgeEmbedding`,
	own: `GetTask ListTasks CancelTask CancelTasks ListSteps ReadLog ReadTaskLog WatchBrowser ReadBrowserRecording AssignTask CompleteTask PauseTask ResumeTask TellTask WithdrawMessage RetryTask ResumeTaskFrom
		KeepCheckpoint ListCheckpoints ListJobs KillJob GetTaskPlan EditTaskPlan TellAgent Kill ExportTask ReadFile ListFiles Watch ListEvents ListMoments ListInbox GetInboxItem ReadInboxArgument ReadInboxAttachment ReplyToTask
		AnswerInboxItem JudgeInboxItem SnoozeInboxItem RevokeAllowRule CompareFiles DescribeFiles DownloadFiles ListArtifacts WatchFiles ListChanges DiffChanges UndoChanges
		ExportWorkspace UpdateTrigger EnableTrigger DeleteTrigger RotateTriggerSecret FireTrigger ReplayDelivery GetNodeExec ListNodeExecs
		ReadNodeLog SearchNodeLog IndexNodeLog SetPassword ListTokens RevokeToken GetUsageReport GetReceipt GetBudget GetEstimate ListAgentSummaries
		DisableAgent EnableAgent DeleteAgent UndeleteAgent RenameAgent TransferAgent RestoreAgentVersion StartNodeExec OpenTerminal
		ListPasskeys DeletePasskey UploadFiles WriteFile SendFiles ReorderTask UndoNodeExec CreateToken TestTrigger ListDeliveries GetDelivery ListCredentialRequests SearchHistory PurgeMemories ListTaskMemories
		DeleteCollection AddSource RemoveSource UploadDocument RemoveDocument SyncCollection
		PurgePatterns GiveFeedback ExplainTask`,
	personal: `GetSession ListSessions DeleteSession CreateLoginCode RenamePasskey ListPushDevices UpdatePushDevice DeletePushDevice TestPushDevice
		GetMemory ListMemoryVersions DeleteMemories RestoreMemories ConfirmMemories
		GetPattern UpdatePattern SharePattern DisablePattern EnablePattern DeletePattern UndeletePattern GetPatternReport ListFeedback DecideProposal`,
	// What people of one organisation use together, by their roles: agents that they
	// see, what is tried only, and what one makes of one's own. Stopping something is in it, too. A persona of somebody
	// else's agent is not: see TestAnothersPersonaHasNotAnAdministratorsRights.
	shared: `DuplicateAgent ListAgentVersions DiffAgentVersions GetTaskSharing ApplyAgent GetAgent ListAgents GetAgentGraph SubmitTask ListWorkers PauseAgent ResumeAgent PrepareImage ListHolds GetStatistics
		GetPolicy TestPolicy ListAllowRules ListProviders GetProviderUsage GetProviderCatalogue ListPrices ListBudgets GetPlan GetQuotaHistory
		ListPatterns MatchPatterns ListProposals GetInsights GetRecommendation CreateTrigger GetTrigger ListTriggers DisableTrigger ListNodes GetNode ListNodeLocks WatchNodeTelemetry GetAgentTelemetry ListImages ListPacks GetImageRules ListSignatureRules
		ListCredentials GetCredential KillNodeExec ListUsers GetUser ListTeams GetTokenLimits GetPasskeyRules GetPushKey BeginPasskeyRegistration CreatePasskey BeginPasskeyProof
		CreatePushDevice ListTools GetTool SetMemory ListMemories RecallMemories ImportMemories CreateCollection ListCollections GetCollection ListDocuments SearchKnowledge GetPassage GetKnowledgeEmbedding`,
}

// teamShares says for each reach what somebody may do beyond the rights of their role who is in
// a team with the owner of an object. A team gives its members its role, which counts
// where it is higher than their own, and nothing that belongs to each other: neither tasks
// nor items of the inbox, files, triggers, tokens or sessions.
var teamShares = map[reach]bool{
	anybody: false, byProof: false, leased: false, operators: false, administrators: false, own: false, personal: false, shared: false,
}

// teamSharesIn has the procedures for which something else is true than teamShares says
// of their reach. There are none: nothing is routed to a team.
var teamSharesIn = map[string]bool{}

// publicKey is one that may have signed an image.
const publicKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUO0WgyuwDz5/KnEQlvFbezr1QwQG
v+G5o0AUJg/baycjqZ8M0I3xxzTdFDk/hmn/WoZa0box6VffuB9s815YPQ==
-----END PUBLIC KEY-----
`

// absent work on what no organisation of the walk has: those who may call them find
// nothing.
var absent = []string{"ReadInboxAttachment", "GetTool", "GetCredential", "UpdateCredential", "RotateCredential", "DeleteCredential", "TestCredential", "DeleteAccessRule", "DeleteRegistry", "DeleteSignatureRule", "DisconnectProvider", "KeepCheckpoint", "KillJob", "ResumeTaskFrom", "UndoChanges",
	"RenamePasskey", "DeletePasskey", "UpdatePushDevice", "DeletePushDevice", "TestPushDevice"}

// reaches returns the table by the procedures' names.
func reaches(t *testing.T) map[string]reach {
	t.Helper()
	out := map[string]reach{}
	for r, names := range whose {
		for _, name := range strings.Fields(names) {
			require.Empty(t, out[name], "%s is in the table twice", name)
			out[name] = r
		}
	}
	return out
}

// house is an organisation whose objects are ann's, who is no administrator.
type house struct {
	others

	// tokens are those of its people and its worker, by what they are.
	tokens map[string]string
}

// The identities that a procedure is called with.
const (
	nobody   = "no token"
	stranger = "another organisation's administrator"
	looker   = "a viewer"
	peer     = "another user of the same role"
	owner    = "the owner"
	admin    = "an administrator"
	worker   = "a worker"
	machine  = "a node"
	// mate has the role of the team only: by themselves they are a viewer.
	mate = "a member of the owner's team"
)

func housed(t *testing.T, h *hubtest.Hub, s *store.Store, name string) house {
	t.Helper()
	out := house{others: organisation(t, h, s, name)}
	workers, err := auth.NewTokens(s).Create(t.Context(), out.org, auth.Worker, "", "w", 0)
	require.NoError(t, err)
	out.tokens = map[string]string{
		looker: userToken(t, s, out.org, "eve", "viewer"), peer: userToken(t, s, out.org, "bob", "advanced"),
		owner: userToken(t, s, out.org, "ann", "advanced"), admin: out.token, worker: workers, mate: userToken(t, s, out.org, "tim", "viewer"),
	}
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"UPDATE tasks SET created_by = 'ann' WHERE org_id = $1", "UPDATE agents SET owner = 'ann' WHERE org_id = $1",
		"UPDATE triggers SET created_by = 'ann' WHERE org_id = $1", "UPDATE allow_rules SET created_by = 'ann' WHERE org_id = $1",
		"UPDATE patterns SET owner = 'ann' WHERE org_id = $1", "UPDATE learn_proposals SET owner = 'ann' WHERE org_id = $1",
		"UPDATE node_execs SET user_name = 'ann', user_id = (SELECT id FROM users WHERE org_id = $1 AND name = 'ann') WHERE org_id = $1",
		"UPDATE memories SET scope_id = (SELECT id FROM users WHERE org_id = $1 AND name = 'ann') WHERE org_id = $1",
		"INSERT INTO teams (id, org_id, name, role) VALUES ('team_of_' || $1, $1, 'crew', 'advanced')",
		"INSERT INTO team_members (org_id, team_id, user_id) SELECT $1, 'team_of_' || $1, id FROM users WHERE org_id = $1 AND name IN ('ann', 'tim')",
	} {
		_, err := conn.Exec(t.Context(), sql, out.org)
		require.NoError(t, err, sql)
	}
	client := h.Client(t, out.tokens[owner])
	login(t, h, out.tokens[owner])
	out.session = do(t, client.Sessions.ListSessions, &deckhandv1.ListSessionsRequest{}).GetSessions()[0].GetId()
	out.apiToken = do(t, client.Tokens.ListTokens, &deckhandv1.ListTokensRequest{}).GetTokens()[0].GetId()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT id FROM users WHERE org_id = $1 AND name = 'ann'", out.org).Scan(&out.user))
	return out
}

// refusal returns the codes with which a caller is refused; none where the
// procedure works for them. shares says that a team's members may do what the owner may.
func refusal(rule auth.Rule, of reach, who string, shares bool) []string {
	denied, roles := []string{"permission_denied"}, map[string]string{looker: "viewer", peer: "advanced", mate: "advanced", owner: "advanced", admin: "admin"}
	role, person := roles[who]
	switch {
	case who == nobody || who == machine:
		return []string{"unauthenticated"}
	case of == leased && who == worker:
		return nil
	case of == leased || who == worker || of == operators:
		return denied
	case person && !auth.AtLeast(role, rule.Role):
		return denied
	case who == mate && shares:
		return nil
	case of == own && who != owner && who != admin, of == personal && who != owner:
		return []string{"permission_denied", "not_found"} // much that is somebody else's is not even found
	}
	return nil
}

// Every procedure works for those only whom the table names, and on those objects:
// whoever calls, with or without a token, with a worker's, and with a node's
// certificate.
func TestEveryProcedureWorksForThoseInTheTable(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	h := hubtest.Start(t, cfg)
	s := openStore(t, h)
	standing, far := housed(t, h, s, "standing"), organisation(t, h, s, "far")
	secure, node := encrypted(t, h, cfg, standing)
	table, exceptions := reaches(t), maps.Clone(teamSharesIn)
	for _, m := range procedures() {
		name := string(m.Name())
		of, known := table[name]
		require.True(t, known, "%s is not in the table of whose objects it works on", name)
		delete(table, name)
		rule, _ := auth.RuleOf(path(m))
		shares, said := exceptions[name]
		if !said {
			shares, said = teamShares[of]
			require.True(t, said, "the table does not say what a team gives for %s", of)
		}
		delete(exceptions, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, who := range []string{nobody, stranger, looker, peer, mate, owner, admin, worker, machine} {
				in := standing
				codes := refusal(rule, of, who, shares)
				if codes == nil && who != stranger && !auth.Reads(path(m)) {
					in = housed(t, h, s, strings.ToLower(name)+strings.ReplaceAll(who, " ", "-")) // what it changes, nobody else looks at
				}
				request := in.request(m.Input())
				var code, text string
				switch {
				case who == machine:
					code, text = callOver(t, secure.URL(), node, http.Header{}, m, request)
				case who == stranger:
					code, text = call(t, h.URL(), far.token, m, request)
				default:
					code, text = call(t, h.URL(), in.tokens[who], m, request)
				}
				switch {
				case of == anybody:
					assert.Contains(t, []string{"", "failed_precondition"}, code, "%s: %s", who, text) // here are no passkeys
					for _, id := range standing.ids() {
						assert.NotContains(t, text, id, who)
					}
				case of == byProof:
					assert.Contains(t, []string{"invalid_argument", "permission_denied"}, code, "%s is no proof: %s", who, text)
				case who == stranger && of != leased && of != operators:
					strange(t, m, standing, code, text)
				case codes == nil && code == "not_found":
					assert.Contains(t, absent, name, "%s: %s", who, text)
				case codes == nil:
					assert.NotContains(t, []string{"unauthenticated", "permission_denied"}, code, "%s: %s", who, text)
				case code == "" && (alone(request) || name == "ListTasks" || name == "CancelTasks" || name == "ListDeliveries" || name == "SearchHistory"): // of anybody's agent or trigger, what the caller sees
					for _, id := range []string{in.task, in.step, in.exec, in.item, in.session, in.apiToken, in.delivery} {
						assert.NotContains(t, text, id, who)
					}
				default:
					assert.Contains(t, codes, code, "%s: %s", who, text)
				}
			}
		})
	}
	require.Empty(t, table, "there are no such procedures")
	require.Empty(t, exceptions, "there are no such procedures")
	standing.untouched(t, s)
}

// strange verifies that a call of another organisation's administrator has neither
// worked on an organisation's objects nor said anything of them.
func strange(t *testing.T, m protoreflect.MethodDescriptor, in house, code, text string) {
	t.Helper()
	if code != "" {
		return // it may name what was asked for
	}
	assert.Contains(t, unfiltered, string(m.Name()), "it worked on another organisation's objects")
	for _, id := range in.ids() {
		assert.NotContains(t, text, id)
	}
}

// alone reports whether a request names nothing that is somebody's: it is answered
// with what the caller sees, or makes something of the caller's.
func alone(request map[string]any) bool {
	for _, field := range []string{"task_id", "task_ids", "step_id", "item_id", "exec_id", "session_id", "token_id", "user_id", "rule_id", "agent_id", "trigger_id", "delivery_id"} {
		if _, has := request[field]; has {
			return false
		}
	}
	return true
}

// encrypted runs a second hub of an installation that speaks TLS, and returns it
// with the TLS of a node of that organisation: there the node can show its
// certificate to the API. Nor does the port that nodes dial serve the API.
func encrypted(t *testing.T, h *hubtest.Hub, cfg hub.Config, in house) (*hubtest.Hub, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"hub.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	cfg = hubtest.Beside(t, cfg)
	cfg.TLSCert, cfg.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cfg.TLSCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(cfg.TLSKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	second := hubtest.Start(t, cfg)

	id, err := identity.Open(identity.Config{Dir: filepath.Join(dir, "identity")})
	require.NoError(t, err)
	join, err := h.Client(t, in.token).Nodes.CreateJoinToken(t.Context(), &deckhandv1.CreateJoinTokenRequest{})
	require.NoError(t, err)
	require.NoError(t, id.Enrol(t.Context(), identity.Enrolment{HubURL: h.URL(), JoinToken: join.GetToken(), Name: "machine"}))
	node, err := id.TLS()
	require.NoError(t, err)
	dial := node.Clone()
	dial.NextProtos = []string{"h2", "http/1.1"}
	conn, err := tls.Dial("tcp", h.EdgeAddress(), dial)
	if err == nil {
		_ = conn.Close()
	}
	require.Error(t, err, "the port of the nodes speaks nothing but their link")

	node = node.Clone()
	node.NextProtos, node.InsecureSkipVerify = nil, true //nolint:gosec // a hub of this test
	return second, node
}

// Nobody reads what is somebody else's in a list either, who is no administrator.
func TestListsHaveNothingOfSomebodyElses(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	ann := housed(t, h, openStore(t, h), "all")
	for name, id := range map[string]string{"ListTasks": ann.task, "ListInbox": ann.item, "ListNodeExecs": ann.exec, "Watch": ann.task, "ListDeliveries": ann.delivery} {
		for _, who := range []string{peer, mate} {
			code, text := call(t, h.URL(), ann.tokens[who], procedure(t, name), map[string]any{})
			require.Empty(t, code, text)
			require.NotContains(t, text, id, who)
		}
		code, text := call(t, h.URL(), ann.tokens[owner], procedure(t, name), map[string]any{})
		require.Empty(t, code, text)
		require.Contains(t, text, id, "%s: %s", name, text)
	}
}

func procedure(t *testing.T, name string) protoreflect.MethodDescriptor {
	t.Helper()
	i := slices.IndexFunc(procedures(), func(m protoreflect.MethodDescriptor) bool { return string(m.Name()) == name })
	require.GreaterOrEqual(t, i, 0, "there is no procedure %s", name)
	return procedures()[i]
}
