package step

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/mcp"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// approvalReason returns why a call needs an approval, or "".
func approvalReason(record *tool.Tool, p *persona.Persona, arguments map[string]any) string {
	if record.AsksPerson(arguments) {
		return "the agent asks"
	}
	if why := record.Wider(arguments); why != "" {
		return why
	}
	return record.ApprovalReason(p)
}

// policyMayWaive reports whether only the tool's category requires approval. A policy
// rule may waive that, but not an approval that the persona itself requires, unless the
// rule comes from a person's decision.
func policyMayWaive(record *tool.Tool, p *persona.Persona) bool {
	category := tool.CategoryName(record.Category)
	return p.Mode != persona.Supervised && !slices.Contains(p.Approvals.Tools, record.Name) && !slices.Contains(p.Approvals.Categories, category)
}

// ask opens an inbox item for a step that waits for an approval or a reply.
func (s *Steps) ask(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, why string) error {
	p, err := s.cfg.Agents.PersonaOf(ctx, tx.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return err
	}
	record, arguments, err := s.read(step)
	if err != nil {
		return err
	}
	server, err := mcp.Get(ctx, tx.Queries, t, p, step.Tool)
	if err != nil {
		return err
	}
	ask, err := s.askOf(ctx, tx, t, step, record, arguments)
	if err != nil {
		return err
	}
	if server != nil && server.Ask != "" {
		showDefinition(&ask, server, s.cfg.Redact.Org(t.OrgID))
	}
	ask.Why, ask.Kind, ask.Timeout, ask.OnExpiry = why, inbox.Approval, p.Approvals.Timeout, string(p.Approvals.OnTimeout)
	ask.Decision.Why = why
	if record.AsksPerson(arguments) {
		q, err := tool.QuestionOf(arguments)
		if err != nil {
			return fmt.Errorf("read the question of step %s: %w", step.ID, err)
		}
		if q.Timeout > 0 {
			ask.Timeout = q.Timeout
		}
		ask.Kind, ask.OnExpiry = inbox.Question, inbox.OnExpiryDefault
		ask.More = map[string]any{"question": q.Text, "answer_kind": q.Kind, "options": q.Options, "default": q.Default}
		raw, err := s.arguments(step)
		if err != nil {
			return err
		}
		if err := (attacher{s}).attach(ctx, looksOf(tx), t, q, raw, &ask); err != nil {
			return err
		}
	} else if raw, err := s.arguments(step); err != nil {
		return err
	} else if ask.Files, err = s.fileChanges(ctx, looksOf(tx), t, step.Tool, arguments, raw); err != nil {
		return err
	} else if record.Irreversible != "" {
		ask.Why += ". " + strings.ToUpper(record.Irreversible[:1]) + record.Irreversible[1:] + " cannot be undone."
		ask.More["irreversible"] = record.Irreversible
	}
	if ask.Kind == inbox.Approval && record.Irreversible == "" && !tool.IsMCP(step.Tool) {
		ask.Shape = policy.ShapeOf(step.Tool, arguments)
		ask.Offer = func(itemID string) (int32, error) {
			return s.cfg.Policies.Offer(ctx, tx, t, step.Tool, ask.Shape, itemID)
		}
	}
	return inbox.Add(ctx, tx, t, step, ask)
}

// askOf returns the part of an inbox item that is common to all kinds: what it shows of a
// step and what the decision is bound to.
func (s *Steps) askOf(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, record *tool.Tool, arguments map[string]any) (inbox.NewItem, error) {
	var err error
	ask := inbox.NewItem{Preview: s.cfg.Redact.Org(t.OrgID).String(record.Preview(arguments))}
	ask.More = map[string]any{"arguments": brief(arguments)}
	if ask.Arguments, err = json.Marshal(s.cfg.Redact.Org(t.OrgID).Map(arguments)); err != nil {
		return ask, fmt.Errorf("encode arguments of step %s: %w", step.ID, err)
	}
	raw, err := s.arguments(step)
	if err != nil {
		return ask, err
	}
	if record.UnderLock() {
		if ask.Preview, err = onMachine(ctx, tx.Queries, step, ask.Preview); err != nil {
			return ask, err
		}
	}
	if record.Inspects() {
		i, err := s.inspect(ctx, looksOf(tx), t, record, raw)
		if err != nil {
			return ask, err
		}
		ask.Preview = s.cfg.Redact.Org(t.OrgID).String(record.Preview(arguments) + "\n\n" + i.Preview)
	}
	if ask.Binding, err = s.binding(ctx, tx.Queries, looksOf(tx), t, step, raw); err != nil {
		return ask, err
	}
	ask.Decision, err = s.decisionOf(ctx, tx.Queries, looksOf(tx), t, step, record, arguments, raw)
	return ask, err
}

// jailUser is the user that runs every command in a jail.
const jailUser = "uid 1000 of the jail"

// machineUser is the user that runs commands on a machine itself.
const machineUser = "root of the machine itself, outside of any jail"

// decisionOf returns what an approver is shown of the decision on a call: the result of
// the current policies, what was read in the call, and where it would run.
func (s *Steps) decisionOf(ctx context.Context, q *db.Queries, l *looks, t db.Task, step db.Step, record *tool.Tool, arguments map[string]any, raw []byte) (inbox.CallDecision, error) {
	decided, err := s.redecide(ctx, q, l, t, step, raw)
	if err != nil {
		return inbox.CallDecision{}, err
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return inbox.CallDecision{}, err
	}
	set, err := s.policies(ctx, q, t, true)
	if err != nil {
		return inbox.CallDecision{}, err
	}
	call := policy.Call{Tool: step.Tool, Category: step.Category, Arguments: arguments}
	if call, err = s.situation(ctx, q, l, t, p, set, call, step.Number); err != nil {
		return inbox.CallDecision{}, err
	}
	out := inbox.CallDecision{
		Rule: decided.Rule, PolicyVersion: decided.Version, Why: decided.Why, Reading: set.Read(call),
		TimeoutSeconds: record.Timeout.Seconds(), Irreversible: record.Irreversible,
		Reversible: record.Reversible || record.ReadOnly, Effect: decided.Effect, Passkey: decided.Passkey, Policy: set.SourceOf(decided.Rule),
	}
	out.Source = sourceOf(decided, record, p, arguments)
	out.OnMachine = record.Machines() && !record.ReadOnly
	if err := l.unseen(set, call); err != nil {
		return inbox.CallDecision{}, err
	}
	if n, ok := arguments["timeout_seconds"].(float64); ok && n > 0 {
		out.TimeoutSeconds = n
	}
	mask := s.cfg.Redact.Org(t.OrgID).String
	out.Program, out.Unsent = mask(call.Program), mask(policy.Shown(call.Line))
	for i := range out.Dangers {
		out.Dangers[i].What, out.Dangers[i].Command = mask(out.Dangers[i].What), mask(out.Dangers[i].Command)
	}
	for i := range out.Commands {
		out.Commands[i].Text = mask(out.Commands[i].Text)
	}
	for i := range out.Unclear {
		out.Unclear[i] = mask(out.Unclear[i])
	}
	folder, _ := arguments["cwd"].(string)
	switch {
	case record.Machine:
		out.Folder, out.User = cmp.Or(folder, "/root"), machineUser
		return out, nil
	case record.UnderLock():
		out.User = machineUser
		return out, nil
	case record.Place != deckhandv1.ToolPlace_TOOL_PLACE_NODE:
		return out, nil
	}
	out.Folder, out.User = policy.Abs(folder), jailUser
	spec, err := s.jailOf(ctx, t, p)
	if err != nil {
		return out, err
	}
	for _, r := range spec.GetEgress().GetRules() {
		out.Hosts = append(out.Hosts, r.GetHost())
	}
	for _, b := range spec.GetEgress().GetBindings() {
		for _, host := range b.GetHosts() {
			if !slices.Contains(out.Hosts, host) {
				out.Hosts = append(out.Hosts, host)
			}
		}
	}
	out.Request = requestOf(step.Tool, arguments, spec.GetEgress())
	if out.Request != nil {
		out.Request.Host, out.Request.ASCIIHost = mask(out.Request.Host), mask(out.Request.ASCIIHost)
	}
	for _, f := range spec.GetEgress().GetForwards() {
		out.Hosts = append(out.Hosts, fmt.Sprintf("%s:%d", f.GetHost(), f.GetPort()))
	}
	return out, nil
}

// unknown handles a step whose outcome cannot be found out: an idempotent one runs again,
// any other waits for a person.
func (s *Steps) unknown(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, record *tool.Tool) (db.Step, error) {
	if (record.Idempotent || record.ReadOnly) && step.Run < maxRuns {
		return s.move(ctx, tx, step, db.ResolveStepParams{
			State: string(Granted), DecisionReason: "the outcome is unknown, and the tool may run twice", Again: 1, GrantedBinding: step.GrantedBinding,
		})
	}
	_, arguments, err := s.read(step)
	if err != nil {
		return step, err
	}
	ask, err := s.askOf(ctx, tx, t, step, record, arguments)
	if err != nil {
		return step, err
	}
	ask.Kind = inbox.Unknown
	ask.Why = "The outcome is unknown: the command may or may not have run. Running it again could repeat its effect."
	ask.More["evidence"] = cut(step.Observation)
	if err := inbox.Add(ctx, tx, t, step, ask); err != nil {
		return step, err
	}
	return step, inbox.Park(ctx, tx, t, event.Hub)
}

// cut returns what an item shows of a long text.
func cut(text string) string { return textcut.Bytes(text, maxShown, " [...]") }

// read returns a step's tool and the arguments that it is called with.
func (s *Steps) read(step db.Step) (*tool.Tool, map[string]any, error) {
	record := s.cfg.Tools.Get(step.Tool)
	if record == nil {
		return nil, nil, fault.New(fault.Internal, "step %s calls tool %q, which this hub does not have", step.ID, step.Tool)
	}
	raw, err := s.arguments(step)
	if err != nil {
		return nil, nil, err
	}
	var arguments map[string]any
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return nil, nil, fmt.Errorf("read arguments of step %s: %w", step.ID, err)
	}
	return record, arguments, nil
}

// arguments returns the arguments that a step's tool is called with: those of the model,
// or those that an approver replaced them by.
func (s *Steps) arguments(step db.Step) ([]byte, error) {
	if step.ChangedSealed != nil {
		return s.cfg.Vault.Open(step.ChangedSealed, changedObject(step.ID))
	}
	return s.cfg.Vault.Open(step.ArgumentsSealed, step.ID)
}

// changedObject is the associated name under which replaced arguments are encrypted, so
// that they cannot be mistaken for the original ones.
func changedObject(stepID string) string { return "changed arguments of " + stepID }

// binding returns what a grant is valid for: a digest of each part of the call as it
// would be executed now. The folder that a command runs in is among its arguments, and
// commands have no environment of their own.
func (s *Steps) binding(ctx context.Context, q *db.Queries, l *looks, t db.Task, step db.Step, arguments []byte) ([]byte, error) {
	version, err := s.cfg.Agents.VersionIn(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	p, err := s.cfg.Agents.Persona(version.Digest, version.Markdown)
	if err != nil {
		return nil, err
	}
	parts := map[string]string{
		"step": step.ID, "arguments": digest(arguments), "persona": fmt.Sprintf("version %d %s", t.AgentVersion, version.Digest),
	}
	set, err := s.policies(ctx, q, t, true)
	if err != nil {
		return nil, err
	}
	if v := set.Version(); v != "" {
		parts["policy"] = v
	}
	deterministic := proto.MarshalOptions{Deterministic: true}
	if server, err := mcp.Get(ctx, q, t, p, step.Tool); err != nil {
		return nil, err
	} else if server != nil {
		// The digest is the same before and after the definition was accepted.
		parts["definition"] = server.Digest
	}
	record, err := deterministic.Marshal(s.cfg.Tools.Record(step.Tool))
	if err != nil {
		return nil, fmt.Errorf("encode tool %s: %w", step.Tool, err)
	}
	parts["tool"] = digest(record)
	if r := s.cfg.Tools.Get(step.Tool); r != nil && r.Inspects() {
		if parts[inspectedPart], err = s.inspectedState(ctx, l, t, r, step, arguments); err != nil {
			return nil, err
		}
	}
	if step.JailID == nodelink.HostJail && step.NodeID != nil {
		parts["machine"] = *step.NodeID
	} else if onNode(s, step) {
		spec, err := s.jailOf(ctx, t, p)
		if err != nil {
			return nil, err
		}
		for _, b := range spec.GetEgress().GetBindings() {
			b.Version = "" // another value is inserted into the same requests
		}
		jail, err := deterministic.Marshal(spec)
		if err != nil {
			return nil, fmt.Errorf("encode jail %s: %w", t.JailID, err)
		}
		parts["jail"] = digest(jail)
		if t.NodeID != nil {
			parts["node"] = *t.NodeID
		}
	}
	return json.Marshal(parts)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// differing returns the sorted names of the parts in which two bindings differ.
func differing(a, b []byte) ([]string, error) {
	var was, is map[string]string
	if err := json.Unmarshal(a, &was); err != nil {
		return nil, fmt.Errorf("read the binding of a grant: %w", err)
	}
	if err := json.Unmarshal(b, &is); err != nil {
		return nil, fmt.Errorf("read a binding: %w", err)
	}
	var out []string
	for part, value := range was {
		if is[part] != value {
			out = append(out, part)
		}
	}
	for part := range is {
		if _, ok := was[part]; !ok {
			out = append(out, part)
		}
	}
	slices.Sort(out)
	return out, nil
}

// verifyGrant checks that nothing that the approval was bound to has changed, and returns
// the step. If something changed, the step waits for a new approval, or is denied if the
// current policies deny it.
func (s *Steps) verifyGrant(ctx context.Context, tx *event.Tx, t db.Task, stepID string) (db.Step, error) {
	step, err := tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: stepID})
	if err != nil || State(step.State) != Granted || step.GrantedBinding == nil {
		return step, err
	}
	raw, err := s.arguments(step)
	if err != nil {
		return step, err
	}
	now, err := s.binding(ctx, tx.Queries, looksOf(tx), t, step, raw)
	if err != nil {
		return step, err
	}
	parts, err := differing(step.GrantedBinding, now)
	if err != nil || len(parts) == 0 {
		return step, err
	}
	decided, err := s.redecide(ctx, tx.Queries, looksOf(tx), t, step, raw)
	if err != nil {
		return step, err
	}
	refused, err := s.refusedSince(ctx, tx, t, step, raw)
	if err != nil {
		return step, err
	}
	switch {
	case decided.Effect == policy.Deny:
		err = s.denySince(ctx, tx, t, step, decided, fault.PermissionDenied, deniedNow(decided))
	case refused != nil:
		err = s.denySince(ctx, tx, t, step, decided, refused.Code, "since it was approved, it cannot be done any more: "+refused.Explanation())
	default:
		err = s.askAgain(ctx, tx, t, step, parts)
	}
	if err != nil {
		return step, err
	}
	return tx.GetStep(ctx, db.GetStepParams{OrgID: t.OrgID, ID: stepID})
}

// askAgain requests a new approval for a granted step, because parts of what was approved
// have changed.
func (s *Steps) askAgain(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, parts []string) error {
	why := fmt.Sprintf("the approval is no longer valid, because the call has changed since: %s", strings.Join(parts, ", "))
	if slices.Contains(parts, inspectedPart) {
		why = "the approval is no longer valid, because the call would do something else by now: " + strings.Join(parts, ", ")
	}
	if slices.Contains(parts, unseenPart) {
		why = "the approval is not valid: the node was offline, so the workspace could not be inspected"
	}
	step, err := s.move(ctx, tx, step, db.ResolveStepParams{State: string(Waiting), DecisionReason: why})
	if err != nil {
		return err
	}
	return s.ask(ctx, tx, t, step, why)
}

// answer returns the reply to the question that a step asks.
func (s *Steps) answer(ctx context.Context, tx *event.Tx, step db.Step) (tool.Answer, error) {
	item, err := tx.NewestInboxItem(ctx, db.NewestInboxItemParams{OrgID: step.OrgID, StepID: step.ID})
	if err != nil {
		return tool.Answer{}, fmt.Errorf("find the answer to step %s: %w", step.ID, err)
	}
	switch inbox.State(item.State) {
	case inbox.Answered:
		text, err := s.cfg.Vault.Open(item.ReplySealed, item.ID)
		return tool.Answer{Text: string(text), By: item.AnsweredBy}, err
	case inbox.Expired:
		return tool.Answer{TimedOut: true}, nil
	}
	return tool.Answer{}, fault.New(fault.Internal, "step %s was granted, but its question %s is %s", step.ID, item.ID, item.State)
}

// changedNote returns the note for the model that the call was not executed as the model
// wrote it.
func changedNote(step db.Step) string {
	if step.ChangedBy == "" {
		return ""
	}
	return fmt.Sprintf("[%s changed the arguments before the call was made: %s]\n", step.ChangedBy, cut(string(step.ChangedArguments)))
}

// move takes a step from its current state to another.
func (s *Steps) move(ctx context.Context, tx *event.Tx, step db.Step, params db.ResolveStepParams) (db.Step, error) {
	params.OrgID, params.ID, params.FromState = step.OrgID, step.ID, step.State
	moved, err := tx.ResolveStep(ctx, params)
	if err != nil {
		return step, fmt.Errorf("move step %s from %s to %s: %w", step.ID, step.State, params.State, err)
	}
	return moved, nil
}
