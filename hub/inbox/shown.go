package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// CallDecision is the hub's decision on a call, what it read in the call, and where the
// call would run, at the time when the item was opened. Secrets in it are masked.
type CallDecision struct {
	// Rule is the name of the rule that requires the approval; empty if no rule does.
	Rule string `json:"rule,omitempty"`
	// PolicyVersion names the policies that were evaluated, with their versions.
	PolicyVersion string `json:"policy_version,omitempty"`
	Why           string `json:"why,omitempty"`
	policy.Reading

	// Folder and User are where a command runs and as which user; empty for calls that do
	// not run on a node.
	Folder string `json:"folder,omitempty"`
	User   string `json:"user,omitempty"`
	// TimeoutSeconds is the time after which the call is ended; 0 for no limit.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// Hosts are the hosts that the jail may reach.
	Hosts []string `json:"hosts,omitempty"`
	// Irreversible describes what cannot be undone.
	Irreversible string `json:"irreversible,omitempty"`
	// Definition is the current definition of an MCP server's tool, if approving the call
	// accepts it, and AgreedDefinition the one that was accepted before.
	Definition       string `json:"definition,omitempty"`
	AgreedDefinition string `json:"agreed_definition,omitempty"`
	// Program is the command line of the job that the call types into, and Unsent what was
	// typed there before and not sent yet.
	Program string `json:"program,omitempty"`
	Unsent  string `json:"unsent,omitempty"`
	// Source is who asks, one of the Sources; Policy is the policy that has Rule.
	Source string `json:"source,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Effect is the policies' decision.
	Effect policy.Effect `json:"effect,omitempty"`
	// Passkey reports that a rule of the policies takes a passkey to approve the call.
	Passkey bool `json:"passkey,omitempty"`
	// OnMachine reports that the call works on a machine itself, and not in a jail.
	OnMachine bool `json:"on_machine,omitempty"`
	// Reversible reports that everything that the call changes can be undone.
	Reversible bool `json:"reversible,omitempty"`
	// Request is the request that the call sends; nil for none.
	Request *Request `json:"request,omitempty"`
}

// Who asks about a call.
const (
	SourceRule       = "rule"
	SourceDanger     = "danger"
	SourcePersona    = "persona"
	SourceTool       = "tool"
	SourceDefinition = "definition"
	SourceAgent      = "agent"
)

// Request is the request that a call sends.
type Request struct {
	Method string `json:"method"`
	Host   string `json:"host"`
	// ASCIIHost is the host as it is looked up, if it is written otherwise.
	ASCIIHost string `json:"ascii_host,omitempty"`
	// MixedLabels are the labels of the host that mix scripts.
	MixedLabels []string `json:"mixed_labels,omitempty"`
	// Refused is why the jail's egress refuses it, and Allow what would allow it.
	Refused string `json:"refused,omitempty"`
	Allow   string `json:"allow,omitempty"`
	// Credentials are the names of those that the proxy puts into its headers.
	Credentials []string `json:"credentials,omitempty"`
}

// RequestMethods are the methods of the tools that send a request.
var RequestMethods = map[string]string{
	toolname.HTTPGet: http.MethodGet, toolname.HTTPPost: http.MethodPost, toolname.HTTPPut: http.MethodPut,
	toolname.HTTPDelete: http.MethodDelete, toolname.HTTPDownload: http.MethodGet,
}

// Judged is what the hub would decide about a call with other arguments.
type Judged struct {
	Decision CallDecision
	// Arguments are masked.
	Arguments map[string]any
	Files     *FileChanges
	// Digest identifies the arguments, the decision and the changes to files.
	Digest string
}

// DecisionOf returns the CallDecision that is stored with an item.
func DecisionOf(item db.InboxItem) (CallDecision, error) {
	var d CallDecision
	if err := json.Unmarshal(item.Decision, &d); err != nil {
		return d, fmt.Errorf("read the decision about %s: %w", item.ID, err)
	}
	return d, nil
}

// ShownDigest returns the digest of everything that a decision on an open item covers:
// the call's arguments with everything that a grant is bound to, what was read in them,
// and the state of the workspace if it is known. For a review it covers what the review
// shows and the state of the workspace. It is empty for other items.
func ShownDigest(row db.GetInboxItemRow) string {
	return shownDigest(row, row.AskedState, row.AskedRecord)
}

func shownDigest(row db.GetInboxItemRow, state *int64, record string) string {
	i := row.InboxItem
	shown := map[string]any{"item": i.ID, "binding": i.Binding}
	switch {
	case State(i.State) != Open || Kind(i.Kind) == Question:
		return ""
	case Kind(i.Kind) == Review:
		shown["detail"] = i.Detail // and the binding is the workspace's state
	case i.StepID == nil:
		return ""
	default:
		shown["changes"] = i.ChangesDigest
		shown["arguments"], shown["decision"], shown["workspace"], shown["workspace_record"] = i.Arguments, i.Decision, state, record
	}
	// A json.RawMessage from the database has one canonical form.
	data, err := json.Marshal(shown)
	if err != nil {
		return "" // cannot happen: it was decoded from JSON
	}
	return digest(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// asShown refuses an approval by a person who saw a different call, and the acceptance of
// work that differs from what the person saw.
func asShown(row db.GetInboxItemRow, a Answer) error {
	if a.Verdict != Approve && a.Verdict != Retry && a.Verdict != Accept {
		return nil
	}
	now := ShownDigest(row)
	switch {
	case now == "":
		return nil
	case a.ShownDigest == "":
		return fault.New(fault.Invalid, "shown_digest is missing: the answer is for what was shown").WithObject(row.InboxItem.ID).
			WithFix("read the item, and send its shown_digest with the answer")
	case a.ShownDigest == now, a.Verdict != Accept && a.ShownDigest == shownDigest(row, nil, ""):
		// The workspace may be recorded just after the item was shown: the jail stays
		// frozen from before that until the call is executed.
		return nil
	}
	return fault.New(fault.Precondition, "what you saw of %s has changed: look again", row.InboxItem.ID).WithObject(row.InboxItem.ID).
		WithFix("read the item again and decide on what it is now: deckhand inbox show %s", row.InboxItem.ID)
}
