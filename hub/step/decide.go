package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/mcp"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// judgement is the hub's decision on a call: granted, denied, deferred, or to be approved
// by a person, and why.
type judgement struct {
	reason string
	denied *fault.Error
	ask    string
	// deferred reports that the call is deferred until a person accepts the run.
	deferred bool
	// counted reports that a policy's limit counts the call.
	counted bool
	// policy is the decision of the policies.
	policy policy.Decision
	// checkpoint says why the point before the call is a checkpoint; see checkpointOf.
	checkpoint string
	// unmade is why there is no decision yet; nil if there is one.
	unmade error
	// machine is the lock of the machine that the call is made on; nil for one in the jail.
	machine *db.NodeLock
}

// judge returns the call's arguments, its category and the decision on it. The
// worker has checked much of this before; the hub trusts none of it.
func (s *Steps) judge(ctx context.Context, q *db.Queries, l *looks, t db.Task, p Proposal) (map[string]any, string, judgement) {
	arguments := map[string]any{}
	agent, err := s.cfg.Agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return arguments, "", judgement{denied: fault.New(fault.Internal, "the persona cannot be read").WithCause(err)}
	}
	if agent, err = task.EffectivePersona(t, agent); err != nil {
		return arguments, "", judgement{denied: fault.New(fault.Internal, "what the task may do cannot be read").WithCause(err)}
	}
	record, schema := s.cfg.Tools.Get(p.Tool), s.cfg.Tools.Record(p.Tool)
	server, err := mcp.Get(ctx, q, t, agent, p.Tool)
	switch {
	case err != nil:
		return arguments, "", judgement{denied: fault.New(fault.Internal, "the tools of the agent's MCP servers cannot be read").WithCause(err)}
	case server != nil:
		record.Category, schema = server.Record.GetCategory(), server.Record
	case tool.IsMCP(p.Tool):
		record = nil
	}
	if record == nil {
		// Stored for the record if they can be parsed at all.
		if json.Unmarshal([]byte(p.ArgumentsJSON), &arguments) != nil {
			arguments = map[string]any{"unreadable": p.ArgumentsJSON}
		}
		return arguments, "", deny(fault.Invalid, fault.ToolNotFound, "use a tool of the list you were given", "there is no tool %q", p.Tool)
	}
	set, err := s.policies(ctx, q, t, false)
	if err != nil {
		return arguments, "", judgement{denied: fault.New(fault.Internal, "the policies cannot be read").WithCause(err)}
	}
	record = recategorised(record, set)
	category := tool.CategoryName(record.Category)
	parsed, err := toolargs.Check(schema, p.ArgumentsJSON)
	if err != nil {
		if json.Unmarshal([]byte(p.ArgumentsJSON), &arguments) != nil {
			arguments = map[string]any{"unreadable": p.ArgumentsJSON}
		}
		return arguments, category, deny(fault.Invalid, fault.InvalidParameters, "correct the arguments and call again", "%v", err)
	}
	arguments = parsed
	role, whose, err := s.role(ctx, q, t)
	if err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "the role of %s cannot be read", t.CreatedBy).WithCause(err)}
	}
	if !tool.Covers(role, record.Category) {
		may := "the role " + role + " of the one who " + whose + " does not allow it"
		if role == "" {
			may = "the one who submitted the task is disabled"
		}
		return arguments, category, deny(fault.Denied, fault.PermissionDenied,
			"ask somebody with more rights to run the task",
			"%s is a %s tool, and %s", p.Tool, category, may)
	}
	held, err := s.cfg.Plans.Subscription(ctx, q, t.OrgID)
	if err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "the organisation's plan cannot be read").WithCause(err)}
	}
	if refused := held.Refuse(p.Tool, record.Category); refused != nil {
		return arguments, category, judgement{denied: refused}
	}
	if refused, err := overQuota(ctx, q, t, record); err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "the calls of the task cannot be counted").WithCause(err)}
	} else if refused != nil {
		return arguments, category, judgement{denied: refused}
	}
	if server == nil && !tool.Allowed(agent, p.Tool) {
		return arguments, category, deny(fault.Denied, fault.PermissionDenied, "use a tool of the list you were given",
			"the persona does not allow the tool %s", p.Tool)
	}
	if record.AsksPerson(arguments) {
		question, err := tool.QuestionOf(arguments)
		if err != nil {
			return arguments, category, deny(fault.Invalid, fault.InvalidParameters, "correct the question and ask again", "%v", err)
		}
		refused, err := attacher{s}.refuseAttachments(ctx, q, l, t, question, []byte(p.ArgumentsJSON))
		if err != nil {
			return arguments, category, judgement{unmade: err}
		}
		if refused != nil {
			return arguments, category, judgement{denied: refused}
		}
	}
	if slices.Contains(tool.Giving, p.Tool) {
		work, err := tool.WorkOf(p.Tool, arguments)
		if err != nil {
			return arguments, category, deny(fault.Invalid, fault.InvalidParameters, "correct the arguments and call again", "%v", err)
		}
		refused, err := s.cfg.Subtasks.Check(ctx, q, t, p.Turn, work)
		if err != nil {
			return arguments, category, judgement{denied: fault.New(fault.Internal, "what the task came of cannot be read").WithCause(err)}
		}
		if refused != nil {
			return arguments, category, judgement{denied: refused}
		}
	}
	if server != nil && server.Gone {
		return arguments, category, deny(fault.NotFound, fault.ToolNotFound, "go on without it",
			"the MCP server %s does not offer the tool %s any more", server.Server.Name, server.Tool)
	}
	lock, refused, err := machineFor(ctx, q, t, agent, record, arguments)
	if err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "the locks of nodes cannot be read").WithCause(err)}
	}
	if refused != nil {
		return arguments, category, judgement{denied: refused}
	}
	if refused := s.refusePart(agent, role, set, policy.Call{Tool: p.Tool, Arguments: arguments}); refused != nil {
		return arguments, category, judgement{denied: refused}
	}
	counted, refused, err := s.limited(ctx, q, t.OrgID, p.Tool, category, set)
	if err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "it cannot be counted how often tools were called").WithCause(err)}
	}
	if refused != nil {
		return arguments, category, judgement{denied: refused}
	}
	decided, err := s.decide(ctx, q, l, t, agent, set, policy.Call{Tool: p.Tool, Category: category, Arguments: arguments}, 0)
	if first := (*event.Outside)(nil); errors.As(err, &first) {
		return arguments, category, judgement{unmade: first}
	}
	if err != nil {
		return arguments, category, judgement{denied: fault.New(fault.Internal, "what the policies say cannot be found out").WithCause(err)}
	}
	out := judgement{policy: decided, counted: counted, machine: lock}
	why := approvalReason(record, agent, arguments)
	if why == "" {
		others, err := s.standsFor(ctx, q, t, set, policy.Call{Tool: p.Tool, Arguments: arguments})
		if err != nil {
			return arguments, category, judgement{denied: fault.New(fault.Internal, "what the call stands for cannot be found out").WithCause(err)}
		}
		for _, as := range others {
			if why = approvalReason(as, agent, arguments); why != "" {
				record = as
				break
			}
		}
	}
	switch {
	case agent.Mode == persona.Review && p.Tool == tool.Handoff:
		out.denied = fault.New(fault.Denied, "the run is in review mode: its work may go to nobody before a person has accepted it").
			WithCode(fault.PermissionDenied).WithFix("complete the task, and say in your summary who should go on with it")
	case decided.Effect == policy.Deny:
		out.denied = fault.New(fault.Denied, "the policy denies it: %s", decided.Why).WithCode(fault.PermissionDenied).WithFix("do it another way")
	case agent.Mode == persona.Review && record.Leaves != nil && record.Leaves(arguments):
		out.deferred = true // accepting the run replaces the approval
		// Nobody is asked about the call by itself, so what other systems might do with its
		// texts counts, too.
		out.policy.Dangers = merged(out.policy.Dangers, policy.DangersWithin(arguments))
	case server != nil && server.Ask != "":
		out.ask = server.Ask
	case record.AsksPerson(arguments):
		out.ask = why
	case record.AdminDecides != "":
		out.ask = why // no rule waives it
	case decided.Effect == policy.Ask:
		out.ask = decided.Why
	case why != "" && decided.Effect == policy.Allow && !decided.Answered && !policyMayWaive(record, agent):
		out.ask = why + "; " + decided.Why + ", but that is for what the persona does not ask about"
	case decided.Effect == policy.Allow:
		out.reason = "allowed: " + decided.Why
	case why != "":
		out.ask = why
	default:
		out.reason = fmt.Sprintf("allowed: the persona lists %s and role %s covers %s tools", p.Tool, role, category)
	}
	if out.ask != "" && record.Inspects() {
		i, err := s.inspect(ctx, l, t, record, []byte(p.ArgumentsJSON))
		if err != nil {
			return arguments, category, judgement{unmade: err}
		}
		if i.Refused != nil {
			// A person need not see a call that cannot be made.
			out.ask, out.denied = "", i.Refused
		}
	}
	out.checkpoint = checkpointOf(agent.Checkpoints, record, out, arguments)
	return arguments, category, out
}

// refusePart refuses a patch that does what the agent may not do with the tools for files.
func (s *Steps) refusePart(agent *persona.Persona, role string, set policy.Set, c policy.Call) *fault.Error {
	parts, err := policy.Parts(c)
	if err != nil {
		return fault.As(err)
	}
	for _, part := range parts {
		why := "the persona does not allow it"
		if record := recategorised(s.cfg.Tools.Get(part.Tool), set); !tool.Covers(role, record.Category) {
			why = "role " + role + " does not cover it"
		} else if tool.Allowed(agent, part.Tool) {
			continue
		}
		return fault.New(fault.Denied, "the patch needs the tool %s, and %s", tool.Title(part.Tool, part.Arguments), why).
			WithCode(fault.PermissionDenied).WithFix("leave it out of the patch")
	}
	return nil
}

// role returns the role that limits a task: the lowest of its submitter's role at
// submission, their current role, and the role of the user who applied the agent's
// persona. whose says what the user with that role did.
func (s *Steps) role(ctx context.Context, q *db.Queries, t db.Task) (role, whose string, err error) {
	least, err := s.cfg.Role(ctx, q, t.OrgID, t.CreatedBy, t.CreatedByRole)
	if err != nil {
		return "", "", err
	}
	version, err := s.cfg.Agents.VersionIn(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return "", "", err
	}
	whose = "submitted the task"
	if auth.AtLeast(least, t.CreatedByRole) {
		least = t.CreatedByRole
	}
	if least != version.CreatedByRole && auth.AtLeast(least, version.CreatedByRole) {
		least, whose = version.CreatedByRole, "applied the agent's persona"
	}
	return least, whose, nil
}

// merged returns the texts of both lists, each once.
func merged(a, b []string) []string {
	out := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

func deny(kind fault.Kind, code fault.Code, fix, format string, args ...any) judgement {
	return judgement{denied: fault.New(kind, format, args...).WithCode(code).WithFix("%s", fix)}
}

// runtimes is the jail runtime that each trust level asks for.
var runtimes = map[persona.Trust]string{
	persona.Trusted:   "runc",
	persona.Verified:  "runsc",
	persona.Untrusted: "kata",
}

// Jail returns the specification of a task's jail, from its persona.
func (s *Steps) Jail(ctx context.Context, t db.Task) (*nodev1.JailSpec, error) {
	p, err := s.persona(ctx, t)
	if err != nil {
		return nil, err
	}
	return s.jailOf(ctx, t, p)
}

// persona returns the version of the persona that a task runs with, with the task's
// overrides applied.
func (s *Steps) persona(ctx context.Context, t db.Task) (*persona.Persona, error) {
	p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return nil, err
	}
	return task.EffectivePersona(t, p)
}

// specOf returns the specification of a task's jail without its egress, and whether the task
// may change nothing outside of its workspace.
func specOf(t db.Task, p *persona.Persona) (spec *nodev1.JailSpec, readOnly bool, err error) {
	override, err := task.OverrideOf(t)
	if err != nil {
		return nil, false, err
	}
	memory := p.Jail.MemoryBytes
	if override.MemoryBytes > 0 {
		memory = override.MemoryBytes
	}
	dev, err := devcontainerOf(t, p)
	if err != nil {
		return nil, false, err
	}
	rootfs, image, err := imageOf(t, cmp.Or(dev.Image, p.Jail.Image))
	if err != nil {
		return nil, false, err
	}
	return &nodev1.JailSpec{
		JailId: t.JailID, Runtime: runtimes[p.Trust], Rootfs: rootfs, Image: image,
		WritableRoot: p.Jail.WritableRoot, RootUser: p.Jail.RootUser, Setup: p.Jail.SetupDigest(), Env: dev.Env,
		CpuMillis: p.Jail.CPUMillis, MemoryBytes: memory, Pids: p.Jail.PIDs, TmpBytes: p.Jail.TmpBytes,
		WorkspaceBytes: p.Workspace.SizeBytes, ReadOnlyPaths: p.Jail.ReadOnlyPaths,
	}, cmp.Or(override.Mode, p.Mode) == persona.Review, nil
}

// plainJail returns the specification of a task's jail without its egress and without what
// depends on its image, which may not be known yet.
func plainJail(t db.Task, p *persona.Persona) (*nodev1.JailSpec, error) {
	plain := *p
	plain.Jail.Image, plain.Jail.WritableRoot, plain.Jail.RootUser, plain.Jail.Setup = "", false, false, nil
	spec, _, err := specOf(t, &plain)
	return spec, err
}

// pauseNext pauses a task if a pause before its next tool call was requested and one of
// the steps would run. The calls stay granted: the next attempt begins with them.
func pauseNext(ctx context.Context, tx *event.Tx, t db.Task, steps ...db.Step) error {
	at := slices.IndexFunc(steps, func(step db.Step) bool { return State(step.State) == Granted })
	if t.PauseNext == "" || at < 0 {
		return nil
	}
	step := steps[at]
	tx.Publish(change.QueueChanged{OrgID: t.OrgID})
	_, err := task.Move(ctx, tx, t, task.Paused, task.PausedBefore(t, step.ID, step.Tool), event.Hub)
	return err
}
