package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// CallDecision is what the hub decided about a call and read in it, and where the
// call would run, at the time of asking. Secrets in it are masked.
type CallDecision struct {
	// Rule is the name of the rule that asks; empty where none does.
	Rule string `json:"rule,omitempty"`
	// PolicyVersion names the policies that were looked at, with their versions.
	PolicyVersion string `json:"policy_version,omitempty"`
	Why           string `json:"why,omitempty"`
	policy.Reading

	// Folder and User are where a command runs and as whom; empty for calls that
	// do not run on a node.
	Folder string `json:"folder,omitempty"`
	User   string `json:"user,omitempty"`
	// TimeoutSeconds is after how long the call is ended; 0 for no limit.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// Hosts are those that the jail may reach.
	Hosts []string `json:"hosts,omitempty"`
	// Irreversible says what cannot be undone.
	Irreversible string `json:"irreversible,omitempty"`
	// Definition is what the tool of an MCP server is now, where to approve the call
	// is to agree to it, and AgreedDefinition what was agreed on before.
	Definition       string `json:"definition,omitempty"`
	AgreedDefinition string `json:"agreed_definition,omitempty"`
}

// DecisionOf returns the decision that is stored with an item.
func DecisionOf(item db.InboxItem) (CallDecision, error) {
	var d CallDecision
	if err := json.Unmarshal(item.Decision, &d); err != nil {
		return d, fmt.Errorf("read the decision about %s: %w", item.ID, err)
	}
	return d, nil
}

// ShownDigest returns the digest of all that an answer to an open item is for: the
// call's arguments with everything that a grant is bound to, what was read in
// them, and the state of the workspace where it is known; of a review, what it
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
		shown["detail"] = i.Detail // and the binding is the workspace's
	case i.StepID == nil:
		return ""
	default:
		shown["arguments"], shown["decision"], shown["workspace"], shown["workspace_record"] = i.Arguments, i.Decision, state, record
	}
	// What is in a json.RawMessage comes from the database in one form.
	data, err := json.Marshal(shown)
	if err != nil {
		return "" // came from JSON
	}
	return digest(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// asShown refuses an approval by a person who saw something else than what the call
// is now, and the acceptance of work that is not what the person saw.
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
		// The workspace may be recorded just after the item was shown: the jail stands
		// still from before it is read until the call is made.
		return nil
	}
	return fault.New(fault.Precondition, "what you saw of %s has changed: look again", row.InboxItem.ID).WithObject(row.InboxItem.ID).
		WithFix("read the item again and decide on what it is now: deckhand inbox show %s", row.InboxItem.ID)
}
