package hub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func exportAudit(t *testing.T, c *sdk.Client, after int64) []byte {
	t.Helper()
	stream, err := c.Audit.ExportAudit(t.Context(), &deckhandv1.ExportAuditRequest{After: after})
	require.NoError(t, err)
	var out bytes.Buffer
	for stream.Receive() {
		out.Write(stream.Msg().GetData())
	}
	require.NoError(t, stream.Err())
	return out.Bytes()
}

// allSealed waits until every entry is in its chain.
func allSealed(t *testing.T, h *hubtest.Hub) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM audit_unsealed").Scan(&n))
		return n == 0
	}, time.Minute, 50*time.Millisecond)
}

// What people do is sealed by the leader, each organisation's in a chain of
// its own, and an export proves itself: a byte that was flipped, and a row that
// was changed or deleted in the database, are found.
func TestTheAuditProvesItself(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 25 {
				_, err := admin.Users.CreateUser(t.Context(), &deckhandv1.CreateUserRequest{Name: fmt.Sprintf("u%d-%d", worker, i)})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	allSealed(t, h)
	data := exportAudit(t, admin, 0)
	report, err := auditlog.Verify(bytes.NewReader(data), nil)
	require.NoError(t, err)
	require.Equal(t, "org_default", report.Organisation)
	require.GreaterOrEqual(t, report.Entries, int64(100))
	require.Equal(t, int64(1), report.First)
	created := 0
	for line := range bytes.Lines(data) {
		var e auditlog.Entry
		if bytes.HasPrefix(line, []byte(`{"position":`)) {
			require.NoError(t, json.Unmarshal(line, &e))
		}
		if e.Action == "user.created" {
			created++
			require.Equal(t, "high", e.Severity)
			require.Equal(t, "admin", e.ActorID)
			require.NotEmpty(t, e.Address)
			require.NotEmpty(t, e.UserAgent)
			require.Contains(t, string(e.After), "viewer")
		}
	}
	require.Equal(t, 100, created)

	source := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		at, mask := source.IntN(len(data)), byte(1+source.IntN(255))
		data[at] ^= mask
		_, err := auditlog.Verify(bytes.NewReader(data), nil)
		require.Error(t, err, "byte %d with %08b", at, mask)
		data[at] ^= mask
	}

	// What comes later goes on where that ended.
	do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "later"})
	allSealed(t, h)
	since, err := auditlog.Verify(bytes.NewReader(exportAudit(t, admin, report.Last)), nil)
	require.NoError(t, err)
	require.Equal(t, report.Last+1, since.First)
	require.Equal(t, report.Key, since.Key)

	// Another organisation has its own.
	victim := organisation(t, h, openStore(t, h), "other")
	allSealed(t, h)
	theirs, err := auditlog.Verify(bytes.NewReader(exportAudit(t, h.Client(t, victim.token), 0)), nil)
	require.NoError(t, err)
	require.Equal(t, victim.org, theirs.Organisation)
	require.NotContains(t, string(exportAudit(t, h.Client(t, victim.token), 0)), "u0-0")

	// Somebody with access to the database can change it, and is found out.
	const off = "ALTER TABLE audit_entries DISABLE TRIGGER USER; ALTER TABLE audit_chain DISABLE TRIGGER USER; "
	const on = "ALTER TABLE audit_entries ENABLE TRIGGER USER; ALTER TABLE audit_chain ENABLE TRIGGER USER; "
	for what, sql := range map[string]string{
		"changed": "UPDATE audit_entries SET actor_id = 'bob' WHERE id = (SELECT entry_id FROM audit_chain WHERE org_id = 'org_default' AND position = 50)",
		"deleted": "DELETE FROM audit_entries WHERE id = (SELECT entry_id FROM audit_chain WHERE org_id = 'org_default' AND position = 60)",
		"cut":     "DELETE FROM audit_chain WHERE org_id = 'org_default' AND position = 70",
	} {
		_, err := pgExec(t, h, sql)
		require.ErrorContains(t, err, "append-only", what)
		before := exportAudit(t, admin, 0)
		_, err = auditlog.Verify(bytes.NewReader(before), nil)
		require.NoError(t, err)
		_, err = pgExec(t, h, "BEGIN; "+off+"CREATE TABLE IF NOT EXISTS kept_e AS TABLE audit_entries; CREATE TABLE IF NOT EXISTS kept_c AS TABLE audit_chain; "+sql+"; "+on+"COMMIT")
		require.NoError(t, err)
		_, err = auditlog.Verify(bytes.NewReader(exportAudit(t, admin, 0)), nil)
		var broken *auditlog.Broken
		require.ErrorAs(t, err, &broken, what)
		_, err = pgExec(t, h, "BEGIN; "+off+"DELETE FROM audit_entries WHERE id IN (SELECT id FROM kept_e); "+
			"INSERT INTO audit_entries OVERRIDING SYSTEM VALUE SELECT * FROM kept_e; DELETE FROM audit_chain WHERE entry_id IN (SELECT entry_id FROM kept_c); "+
			"INSERT INTO audit_chain SELECT * FROM kept_c; DROP TABLE kept_e, kept_c; "+on+"COMMIT")
		require.NoError(t, err)
	}
}

// An entry of high severity is told to destinations, once; others are not.
func TestHighEntriesAlert(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	do(t, admin.Destinations.CreateDestination, &deckhandv1.CreateDestinationRequest{
		Name: "watch", Spec: &deckhandv1.DestinationSpec{Events: []string{"security"}, To: &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}}},
	})
	do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{Name: "medium"})
	alice := do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "alice"}).GetUser()
	allSealed(t, h)
	notifications := do(t, admin.Destinations.ListNotifications, &deckhandv1.ListNotificationsRequest{}).GetNotifications()
	require.Len(t, notifications, 1)
	require.Equal(t, "audit.high", notifications[0].GetType())
	data := do(t, admin.Destinations.GetNotification, &deckhandv1.GetNotificationRequest{NotificationId: notifications[0].GetId()}).GetNotification().GetEvent().GetFields()["data"].GetStructValue()
	require.Equal(t, alice.GetId(), data.GetFields()["details"].GetStructValue().GetFields()["object_id"].GetStringValue())
	require.Contains(t, data.GetFields()["summary"].GetStringValue(), "admin did user.created")
	high := do(t, admin.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Severity: "high"}).GetEntries()
	require.Len(t, high, 1)
}

// A run's receipt is signed, and says what the run was made of.
func TestARunHasAReceipt(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	applied := do(t, admin.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{Filename: "r.md", Markdown: scripted("r"), Script: "turns: []\n"}).GetAgent()
	task := do(t, admin.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "r", Goal: "go"}).GetTask()
	refuses(t, connect.CodeFailedPrecondition, admin.Audit.GetReceipt, &deckhandv1.GetReceiptRequest{TaskId: task.GetId()})
	do(t, admin.Tasks.CancelTask, &deckhandv1.CancelTaskRequest{TaskId: task.GetId()})
	line := do(t, admin.Audit.GetReceipt, &deckhandv1.GetReceiptRequest{TaskId: task.GetId()}).GetLine()
	report, err := auditlog.Verify(bytes.NewReader(line), nil)
	require.NoError(t, err)
	r := report.Receipt
	require.Equal(t, task.GetId(), r.TaskID)
	require.Equal(t, "cancelled", r.State)
	require.Equal(t, applied.GetId(), r.AgentID)
	require.Equal(t, applied.GetVersion(), r.PersonaVersion)
	require.NotEmpty(t, r.PersonaDigest)
	require.Equal(t, []string{"host"}, r.Images)
	require.Positive(t, r.Events)
	require.NotEqual(t, string(bytes.Repeat([]byte("0"), 64)), r.EventsDigest)
	allSealed(t, h)
	export, err := auditlog.Verify(bytes.NewReader(exportAudit(t, admin, 0)), nil)
	require.NoError(t, err)
	require.Equal(t, export.Key, r.Key, "signed with the audit's key")
	for at := range line {
		line[at] ^= 1
		_, err := auditlog.Verify(bytes.NewReader(line), nil)
		require.Error(t, err, "byte %d", at)
		line[at] ^= 1
	}
}

// verifyAudit has the hub verify its audit log, and returns the result and how often it
// said before how far it was.
func verifyAudit(t *testing.T, c *sdk.Client) (*deckhandv1.AuditVerification, int) {
	t.Helper()
	stream, err := c.Audit.VerifyAudit(t.Context(), &deckhandv1.VerifyAuditRequest{})
	require.NoError(t, err)
	var result *deckhandv1.AuditVerification
	progress := 0
	for stream.Receive() {
		require.Nil(t, result, "the result comes last")
		if result = stream.Msg().GetResult(); result == nil {
			progress++
			require.LessOrEqual(t, stream.Msg().GetPosition(), stream.Msg().GetLastPosition())
		}
	}
	require.NoError(t, stream.Err())
	require.NotNil(t, result)
	return result, progress
}

// The hub verifies its own log: it says up to which entry, finds every part that was
// changed behind its back and goes on behind it, and records both.
func TestTheHubVerifiesItsAudit(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	admin := h.Client(t, h.AdminToken)
	// Each is sealed alone, so that the parts between heads are small.
	for i := range 5 {
		do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: fmt.Sprintf("u%d", i)})
		allSealed(t, h)
	}
	exported, err := auditlog.Verify(bytes.NewReader(exportAudit(t, admin, 0)), nil)
	require.NoError(t, err)
	allSealed(t, h)
	whole, progress := verifyAudit(t, admin)
	require.Equal(t, deckhandv1.AuditVerdict_AUDIT_VERDICT_INTACT, whole.GetVerdict())
	require.Equal(t, exported.Entries+1, whole.GetEntries(), "the export itself was recorded")
	require.Equal(t, whole.GetEntries(), whole.GetPosition())
	require.Equal(t, exported.Key, whole.GetKey())
	require.Empty(t, whole.GetBreaks())
	require.Positive(t, progress)
	allSealed(t, h)
	recorded := do(t, admin.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "audit.verified"}).GetEntries()
	require.Len(t, recorded, 1)
	require.Equal(t, "intact", recorded[0].GetAfter().GetFields()["verdict"].GetStringValue())

	const off = "BEGIN; ALTER TABLE audit_entries DISABLE TRIGGER USER; ALTER TABLE audit_chain DISABLE TRIGGER USER; ALTER TABLE audit_heads DISABLE TRIGGER USER; "
	const on = "; ALTER TABLE audit_entries ENABLE TRIGGER USER; ALTER TABLE audit_chain ENABLE TRIGGER USER; ALTER TABLE audit_heads ENABLE TRIGGER USER; COMMIT"
	_, err = pgExec(t, h, off+
		"UPDATE audit_entries SET actor_id = 'bob' WHERE id = (SELECT entry_id FROM audit_chain WHERE org_id = 'org_default' AND position = 2); "+
		"DELETE FROM audit_entries WHERE id = (SELECT entry_id FROM audit_chain WHERE org_id = 'org_default' AND position = 4); "+
		"INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason, address, user_agent) "+
		"VALUES ('org_default', 'user', 'bob', 'user.created', 'user', 'user_x', '{}', '{}', '', '', '')"+on)
	require.NoError(t, err)
	broken, _ := verifyAudit(t, admin)
	require.Equal(t, deckhandv1.AuditVerdict_AUDIT_VERDICT_BROKEN, broken.GetVerdict())
	require.Len(t, broken.GetBreaks(), 3)
	changed, deleted, foreign := broken.GetBreaks()[0], broken.GetBreaks()[1], broken.GetBreaks()[2]
	require.Contains(t, changed.GetProblem(), "is not what was sealed")
	require.LessOrEqual(t, changed.GetFirstPosition(), int64(2))
	require.GreaterOrEqual(t, changed.GetLastPosition(), int64(2))
	require.Contains(t, deleted.GetProblem(), "entry of position 4 is missing")
	require.Equal(t, int64(4), deleted.GetLastPosition())
	require.Contains(t, foreign.GetProblem(), "in no chain and will not be sealed: 1,")
	require.Equal(t, whole.GetPosition()+1, broken.GetPosition(), "it goes on behind what is broken")
	allSealed(t, h)
	told := do(t, admin.Audit.ListAuditEntries, &deckhandv1.ListAuditEntriesRequest{Action: "audit.broken", Severity: "critical"}).GetEntries()
	require.Len(t, told, 1)

	// Another organisation's log is another's.
	victim := organisation(t, h, openStore(t, h), "other")
	allSealed(t, h)
	theirs, _ := verifyAudit(t, h.Client(t, victim.token))
	require.Equal(t, deckhandv1.AuditVerdict_AUDIT_VERDICT_INTACT, theirs.GetVerdict())

	// The last head is gone: nothing is sealed from then on.
	_, err = pgExec(t, h, off+"DELETE FROM audit_heads WHERE org_id = 'org_default' AND number = (SELECT max(number) FROM audit_heads WHERE org_id = 'org_default')"+on)
	require.NoError(t, err)
	headless, _ := verifyAudit(t, admin)
	breaks := headless.GetBreaks()
	require.Contains(t, breaks[len(breaks)-2].GetProblem(), "head of the last entries is missing")
}
