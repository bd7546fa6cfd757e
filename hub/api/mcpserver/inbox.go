package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

type item struct {
	ID          string         `json:"id"`
	Kind        string         `json:"kind" jsonschema:"approval, question, unknown, review, escalation, limit, budget, suspended, egress, provider or credential"`
	TaskID      string         `json:"task_id,omitempty"`
	TaskTitle   string         `json:"task_title,omitempty"`
	Agent       string         `json:"agent,omitempty"`
	Sentence    string         `json:"sentence" jsonschema:"what is asked"`
	Why         string         `json:"why,omitempty" jsonschema:"why it was asked"`
	Tool        string         `json:"tool,omitempty"`
	Arguments   map[string]any `json:"arguments,omitempty" jsonschema:"of the call, with secrets masked"`
	Question    string         `json:"question,omitempty"`
	Choices     []string       `json:"choices,omitempty"`
	Dangerous   bool           `json:"dangerous"`
	Dangers     []string       `json:"dangers,omitempty" jsonschema:"what is dangerous about the call, and the command that does it"`
	Commands    []string       `json:"commands,omitempty" jsonschema:"commands that other commands run, such as those of an encoded script"`
	Unclear     []string       `json:"unclear,omitempty" jsonschema:"parts of the script that were not understood"`
	Where       string         `json:"where,omitempty" jsonschema:"the node and folder that the call would run in"`
	RunsAs      string         `json:"runs_as,omitempty" jsonschema:"the user that the call would run as"`
	Hosts       []string       `json:"hosts,omitempty" jsonschema:"hosts that the call can reach"`
	Program     string         `json:"program,omitempty" jsonschema:"the running program that the call types into"`
	Unsent      string         `json:"unsent,omitempty" jsonschema:"what is already typed there; the call types behind it"`
	Request     string         `json:"request,omitempty" jsonschema:"the request that the call sends, and the credentials that are added to it"`
	Lasting     string         `json:"irreversible,omitempty" jsonschema:"what the call does that cannot be undone"`
	Evidence    string         `json:"evidence,omitempty" jsonschema:"what is known about a call with an unknown outcome"`
	MayAnswer   bool           `json:"may_answer" jsonschema:"your user may answer it"`
	Passkey     bool           `json:"needs_passkey" jsonschema:"it can be approved in the console only, with a passkey"`
	Incomplete  bool           `json:"incomplete" jsonschema:"there is more to see than is shown here: it can be approved in the console only"`
	ShownDigest string         `json:"shown_digest,omitempty" jsonschema:"what inbox_decide takes with approve, retry and accept"`
	AskedAt     string         `json:"asked_at"`
	ExpiresAt   string         `json:"expires_at,omitempty"`
}

type inboxIn struct {
	page
	TaskID string   `json:"task_id,omitempty" jsonschema:"only of this task"`
	Kinds  []string `json:"kinds,omitempty" jsonschema:"only of these kinds, such as approval or question"`
	Mine   bool     `json:"mine,omitempty" jsonschema:"only of your user's own tasks and agents"`
}

type inboxOut struct {
	Items         []item `json:"items"`
	NextPageToken string `json:"next_page_token,omitempty" jsonschema:"empty on the last page"`
	Notice        string `json:"notice"`
}

func (o inboxOut) text() string {
	out := make([]string, 0, len(o.Items)+1)
	for _, i := range o.Items {
		call := ""
		if i.Tool != "" {
			// A person approves what is shown: characters that a terminal would hide are marked.
			call = quote("arguments of "+i.Tool, literal.Block(i.arguments()))
		}
		out = append(out, lines(
			fmt.Sprintf("%s %s of %s, task %s", i.ID, i.Kind, i.Agent, i.TaskID), quote("what is asked", literal.Block(i.asks())), call))
	}
	if len(out) == 0 {
		return "Nothing waits for a person."
	}
	return lines(strings.Join(out, "\n"), "A person decides: show them what is asked, in full.", more(o.NextPageToken))
}

// arguments returns the arguments as JSON for people.
func (i item) arguments() string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(i.Arguments) // they were decoded from JSON
	return out.String()
}

// asks returns everything that a decision is about, but for the arguments.
func (i item) asks() string {
	labelled := func(label string, texts ...string) string {
		if text := strings.Join(texts, "\n"); text != "" {
			return label + ": " + text
		}
		return ""
	}
	return lines(
		i.Sentence, i.Question, labelled("Choices", i.Choices...), i.Why, labelled("Dangerous", i.Dangers...), labelled("Cannot be undone", i.Lasting),
		labelled("Commands within commands", i.Commands...), labelled("Not understood", i.Unclear...), labelled("Request", i.Request),
		labelled("Runs in", i.Where), labelled("Runs as", i.RunsAs), labelled("Can reach", i.Hosts...),
		labelled("Types into", i.Program), labelled("Already typed", i.Unsent), labelled("Evidence", i.Evidence),
	)
}

func itemOf(i *deckhandv1.InboxItem) item {
	out := item{
		ID: i.GetId(), Kind: word(i.GetKind(), "INBOX_KIND_"), TaskID: i.GetTaskId(), TaskTitle: i.GetTaskTitle(), Agent: i.GetAgentName(),
		Sentence: i.GetSentence(), Why: i.GetWhy(), Tool: i.GetTool(), Question: i.GetQuestion().GetText(), Choices: i.GetQuestion().GetChoices(),
		Dangerous: i.GetDangerous(), MayAnswer: i.GetMayAnswer(), Passkey: i.GetNeedsPasskey(), Incomplete: incomplete(i),
		ShownDigest: i.GetShownDigest(), AskedAt: moment(i.GetAskedAt()), ExpiresAt: moment(i.GetExpiresAt()),
	}
	for _, d := range i.GetDecision().GetDangers() {
		out.Dangers = append(out.Dangers, d.GetWhat()+": "+d.GetCommand())
	}
	decision := i.GetDecision()
	for _, c := range decision.GetCommands() {
		if len(c.GetVia()) > 0 {
			out.Commands = append(out.Commands, fmt.Sprintf("%s (by %s)", c.GetText(), strings.Join(c.GetVia(), ", ")))
		}
	}
	if decision.GetNodeName() != "" || decision.GetFolder() != "" {
		out.Where = decision.GetNodeName() + ":" + decision.GetFolder()
	}
	out.Unclear, out.RunsAs, out.Hosts, out.Lasting = decision.GetUnclear(), decision.GetUser(), decision.GetHosts(), decision.GetIrreversible()
	out.Program, out.Unsent, out.Evidence = decision.GetProgram(), decision.GetUnsent(), i.GetEvidence()
	if r := decision.GetRequest(); r != nil {
		out.Request = r.GetMethod() + " to " + r.GetHost()
		if r.GetAsciiHost() != "" {
			out.Request += " (" + r.GetAsciiHost() + ")"
		}
		if len(r.GetCredentials()) > 0 {
			out.Request += ", with the credentials " + strings.Join(r.GetCredentials(), ", ")
		}
	}
	if i.GetArguments() != nil {
		out.Arguments = i.GetArguments().AsMap()
	}
	return out
}

// incomplete reports whether an item has more to see than inbox_list shows. What is shown is
// taken away: what is left, also of fields that are added later, is not shown.
func incomplete(i *deckhandv1.InboxItem) bool {
	if i.GetReview() != nil || len(i.GetChanges()) > 0 || i.GetChangesUnknown() != "" || i.GetEffectKey() != "" || len(i.GetLongArguments()) > 0 {
		return true
	}
	rest := proto.CloneOf(i.GetDecision())
	if rest == nil {
		return false
	}
	if r := rest.GetRequest(); r != nil {
		r.Method, r.Host, r.AsciiHost, r.Credentials = "", "", "", nil
		if proto.Size(r) == 0 {
			rest.Request = nil
		}
	}
	rest.Dangers, rest.Commands, rest.Unclear, rest.Hosts = nil, nil, nil, nil
	rest.NodeId, rest.NodeName, rest.Folder, rest.User = "", "", "", ""
	rest.Irreversible, rest.Program, rest.Unsent = "", "", ""
	// Why it was asked is shown in words, and needs_passkey is the item's.
	rest.Rule, rest.Policy, rest.PolicyVersion, rest.Why, rest.Source, rest.Effect = "", "", "", "", "", ""
	rest.Passkey, rest.Reversible, rest.TimeoutSeconds = false, false, 0
	return proto.Size(rest) > 0
}

func kindsOf(names []string) ([]deckhandv1.InboxKind, error) {
	var out []deckhandv1.InboxKind
	for _, name := range names {
		value, ok := deckhandv1.InboxKind_value["INBOX_KIND_"+strings.ToUpper(strings.TrimSpace(name))]
		if !ok || value == 0 {
			return nil, fault.New(fault.Invalid, "kinds has %q, which is no kind of an item", name).WithCode(fault.InvalidParameters).
				WithFix("use kinds such as approval, question or review")
		}
		out = append(out, deckhandv1.InboxKind(value))
	}
	return out, nil
}

type decideIn struct {
	ItemID      string `json:"item_id" jsonschema:"the item's id, see inbox_list"`
	Decision    string `json:"decision" jsonschema:"approve, reject, reply, suggest, retry, skip, accept, changes, close or resume"`
	Text        string `json:"text,omitempty" jsonschema:"of reply, suggest and changes: what the agent is told"`
	ShownDigest string `json:"shown_digest,omitempty" jsonschema:"of approve, retry and accept: the item's shown_digest as your user saw it"`
	Reason      string `json:"reason,omitempty" jsonschema:"for the record"`
}

type decideOut struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Answer string `json:"answer"`
	By     string `json:"answered_by"`
	TaskID string `json:"task_id,omitempty"`
}

func (o decideOut) text() string {
	return fmt.Sprintf("%s is %s by %s: %s. Call task_wait with task_id %s.", o.ID, o.State, o.By, o.Answer, o.TaskID)
}

// request returns the RPC's request for a decision.
func (in decideIn) request() (*deckhandv1.AnswerInboxItemRequest, error) {
	req := &deckhandv1.AnswerInboxItemRequest{ItemId: in.ItemID, Reason: in.Reason, ShownDigest: in.ShownDigest}
	switch in.Decision {
	case "approve":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}}
	case "reject":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Reject_{Reject: &deckhandv1.AnswerInboxItemRequest_Reject{}}
	case "reply":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: in.Text}}
	case "suggest":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Suggest_{Suggest: &deckhandv1.AnswerInboxItemRequest_Suggest{Text: in.Text}}
	case "retry":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Retry_{Retry: &deckhandv1.AnswerInboxItemRequest_Retry{}}
	case "skip":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Skip_{Skip: &deckhandv1.AnswerInboxItemRequest_Skip{}}
	case "accept":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Accept_{Accept: &deckhandv1.AnswerInboxItemRequest_Accept{}}
	case "changes":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Changes_{Changes: &deckhandv1.AnswerInboxItemRequest_Changes{Text: in.Text}}
	case "close":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Close_{Close: &deckhandv1.AnswerInboxItemRequest_Close{}}
	case "resume":
		req.Answer = &deckhandv1.AnswerInboxItemRequest_Resume_{Resume: &deckhandv1.AnswerInboxItemRequest_Resume{}}
	default:
		return nil, fault.New(fault.Invalid, "decision is %q", in.Decision).WithCode(fault.InvalidParameters).
			WithFix("use approve, reject, reply, suggest, retry, skip, accept, changes, close or resume")
	}
	return req, nil
}

// decide answers an item. An item that was not shown in full is refused: the console shows all of it.
func (t *tools) decide(ctx context.Context, in decideIn) (decideOut, error) {
	req, err := in.request()
	if err != nil {
		return decideOut{}, err
	}
	if in.Decision == "approve" || in.Decision == "accept" || in.Decision == "retry" {
		found, err := t.inbox.GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: in.ItemID})
		if err != nil {
			return decideOut{}, err
		}
		if incomplete(found.GetItem()) {
			return decideOut{}, fault.New(fault.Precondition, "there is more to see of %s than inbox_list shows", in.ItemID).
				WithCode(fault.PermissionDenied).WithFix("decide it in the console, which shows all of it")
		}
	}
	res, err := t.inbox.AnswerInboxItem(ctx, req)
	if err != nil {
		return decideOut{}, err
	}
	done := res.GetItem()
	return decideOut{
		ID: done.GetId(), State: word(done.GetState(), "INBOX_STATE_"), Answer: done.GetAnswer(), By: done.GetAnsweredBy(), TaskID: done.GetTaskId(),
	}, nil
}

func (t *tools) addInbox(server *mcp.Server, decide bool) {
	add(server, "inbox_list", "List what waits for a person", reads,
		"Lists open approvals, questions, reviews and other items that need a person. Show them to your user in full; do not decide by yourself.",
		func(ctx context.Context, in inboxIn) (inboxOut, error) {
			kinds, err := kindsOf(in.Kinds)
			if err != nil {
				return inboxOut{}, err
			}
			res, err := t.inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{
				TaskId: in.TaskID, Kinds: kinds, Mine: in.Mine, PageSize: in.size(), PageToken: in.PageToken,
			})
			if err != nil {
				return inboxOut{}, err
			}
			out := inboxOut{Items: []item{}, NextPageToken: res.GetNextPageToken(), Notice: notice}
			for _, i := range res.GetItems() {
				out.Items = append(out.Items, itemOf(i))
			}
			return out, nil
		})
	if decide {
		add(server, "inbox_decide", "Decide an item of the inbox", destroys,
			"Approves, rejects or answers an item of the inbox as your user. Call it only after your user has seen the item in full and told you their decision. A decision cannot be taken back.", t.decide)
	}
}
