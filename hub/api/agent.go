package api

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Agents serves AgentService.
type Agents struct {
	Agents   *agent.Service
	Tasks    *task.Service
	Subtasks *subtask.Service
	Triggers *trigger.Service
	Nodes    *node.Nodes
	Policies *policy.Service
	Queries  *db.Queries
}

// GetAgentGraph returns which agents may give work to which, and which did.
func (h *Agents) GetAgentGraph(ctx context.Context, _ *deckhandv1.GetAgentGraphRequest) (*deckhandv1.GetAgentGraphResponse, error) {
	edges, err := h.Subtasks.Graph(ctx, viewer(ctx))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetAgentGraphResponse{}
	for _, e := range edges {
		res.Edges = append(res.Edges, &deckhandv1.AgentEdge{
			From: e.From, To: e.To, Kind: string(e.Kind), Permitted: e.Permitted, Tasks: e.Tasks, Live: e.Live, Waiting: e.Waiting,
			Tokens: e.Tokens, RecentTokens: e.RecentTokens, CostMicros: e.CostMicros, LastAt: timestamp(e.LastAt),
		})
	}
	starts, err := h.Subtasks.Triggers(ctx, viewer(ctx))
	if err != nil {
		return nil, err
	}
	for _, row := range starts {
		edge := &deckhandv1.TriggerEdge{
			TriggerId: row.TriggerID, TriggerName: row.TriggerName, Kind: row.Kind, Agent: row.AgentName, State: row.State, Tasks: row.Tasks,
			Live: row.Live, Tokens: row.Tokens, RecentTokens: row.RecentTokens, CostMicros: row.CostMicros,
		}
		if row.Tasks > 0 {
			edge.LastAt = timestamppb.New(row.LastAt)
		}
		res.Triggers = append(res.Triggers, edge)
	}
	return res, nil
}

// ListAgentSummaries returns what agents did last and spent this week.
func (h *Agents) ListAgentSummaries(ctx context.Context, req *deckhandv1.ListAgentSummariesRequest) (*deckhandv1.ListAgentSummariesResponse, error) {
	after, _, err := store.ParseNameToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.GetPageSize(), listPage)
	rows, err := h.Agents.Summaries(ctx, viewer(ctx), after, size+1)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAgentSummariesResponse{}
	rows, res.NextPageToken = store.Page(rows, size, func(last agent.Summary) string { return store.NameToken(last.Name, last.ID) })
	for _, row := range rows {
		res.Agents = append(res.Agents, &deckhandv1.AgentSummary{
			AgentId: row.ID, Name: row.Name, LastTaskId: row.LastID, LastState: lastState(row.LastState), LastFinishedAt: timestamp(row.LastFinishedAt),
			LastCostMicros: row.LastCostMicros, LastErrorCode: row.LastErrorCode, Queued: row.Queued, DayCostMicros: row.DayCosts,
		})
	}
	return res, nil
}

// TellAgent sends an agent a message: to the task that it is working on, or as a new one.
func (h *Agents) TellAgent(ctx context.Context, req *deckhandv1.TellAgentRequest) (*deckhandv1.TellAgentResponse, error) {
	id := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	at, err := h.Tasks.ActiveTask(ctx, id.OrgID, agentID)
	if err != nil {
		return nil, err
	}
	text, key := req.GetText(), req.GetIdempotencyKey()
	if at != nil {
		if err := own(id, *at); err != nil {
			return nil, err
		}
		row, _, err := h.Tasks.SendMessage(ctx, id.OrgID, at.ID, task.Instruction{Text: text, IdempotencyKey: key}, actor(id))
		if err != nil {
			return nil, err
		}
		return &deckhandv1.TellAgentResponse{Task: taskRow(row)}, nil
	}
	row, err := h.Tasks.Submit(ctx, task.Submission{
		OrgID: id.OrgID, AgentID: agentID, Goal: text, IdempotencyKey: key, By: actor(id), Role: id.Role,
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.TellAgentResponse{Task: taskRow(row), Created: true}, nil
}

// PauseAgent keeps new tasks of an agent from starting.
func (h *Agents) PauseAgent(ctx context.Context, req *deckhandv1.PauseAgentRequest) (*deckhandv1.PauseAgentResponse, error) {
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) error {
		return h.Agents.Pause(ctx, id.OrgID, agentID, req.GetReason(), actor(id))
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PauseAgentResponse{Agent: a}, nil
}

// ResumeAgent lets the tasks of an agent start again.
func (h *Agents) ResumeAgent(ctx context.Context, req *deckhandv1.ResumeAgentRequest) (*deckhandv1.ResumeAgentResponse, error) {
	a, err := h.change(ctx, req.GetAgentId(), func(id auth.Identity, agentID string) error {
		return h.Agents.Resume(ctx, id.OrgID, agentID, actor(id))
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ResumeAgentResponse{Agent: a}, nil
}

// change changes the agent that ref identifies with do, checks the queue again, and
// returns the agent.
func (h *Agents) change(ctx context.Context, ref string, do func(id auth.Identity, agentID string) error) (*deckhandv1.Agent, error) {
	id := auth.From(ctx)
	agentID, err := h.Agents.Find(ctx, viewer(ctx), ref)
	if err != nil {
		return nil, err
	}
	if err := do(id, agentID); err != nil {
		return nil, err
	}
	row, err := h.Agents.Get(ctx, id.OrgID, agentID)
	if err != nil {
		return nil, err
	}
	return h.message(ctx, row)
}

// maySpecial refuses a persona that may connect to addresses of the node itself, unless an
// administrator applies it.
func (h *Agents) maySpecial(id auth.Identity, f agent.File) error {
	p, err := h.Agents.Parse(f)
	if err != nil {
		return err
	}
	if special := append(p.Egress.Special(), p.Jail.SetupEgress.Special()...); len(special) > 0 && id.Role != auth.Admin {
		return fault.New(fault.Denied, "egress names %s, an address of the node itself or of its network's own services", strings.Join(special, ", ")).
			WithFix("have an administrator apply the persona, or name another host")
	}
	return nil
}

// ApplyAgent stores a persona file.
func (h *Agents) ApplyAgent(ctx context.Context, req *deckhandv1.ApplyAgentRequest) (*deckhandv1.ApplyAgentResponse, error) {
	id := auth.From(ctx)
	name := req.GetFilename()
	if name == "" {
		name = "persona"
	}
	file := agent.File{Name: name, Markdown: req.GetMarkdown(), Script: req.GetScript(), Along: req.GetAlong()}
	if err := h.maySpecial(id, file); err != nil {
		return nil, err
	}
	p, err := h.Agents.Parse(file)
	if err != nil {
		return nil, err
	}
	if len(p.Triggers) > 0 {
		// Before anything is stored: what cannot be stored is refused as a whole.
		agentID, err := h.Agents.ByName(ctx, id.OrgID, p.Name)
		if err == nil {
			err = h.Triggers.Clash(ctx, id.OrgID, agentID, p)
		}
		if err != nil {
			return nil, err
		}
	}
	by := applier(id)
	if by.Ownership, err = h.ownership(ctx, id.OrgID, req.GetOwner(), req.GetVisibility()); err != nil {
		return nil, err
	}
	row, change, err := h.Agents.Apply(ctx, id.OrgID, file, by, req.GetDryRun())
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ApplyAgentResponse{Agent: agentMessage(row), Change: change}
	if req.GetDryRun() {
		return res, nil
	}
	res.Agent.MayManage, res.Agent.Avatar, res.Agent.Title, res.Agent.Goal = true, p.Avatar, p.Title, p.Goal
	res.Agent.HubAccess = p.HubAccess
	declared, err := h.Triggers.Declare(ctx, id.OrgID, row.Agent.ID, p, actor(id))
	if err != nil {
		return nil, err
	}
	for _, d := range declared {
		spec, err := trigger.Spec(d.Row)
		if err != nil {
			return nil, err
		}
		m := &deckhandv1.AppliedTrigger{Name: d.Name, Change: d.Change, Kind: d.Row.Kind, Secret: d.Secret, Verify: spec.GetWebhook().GetVerify()}
		if trigger.Kind(d.Row.Kind) == trigger.Webhook {
			m.Path = trigger.Prefix + d.Row.ID
		}
		res.Triggers = append(res.Triggers, m)
	}
	return res, nil
}

// GetAgent returns one agent with a version of its persona.
func (h *Agents) GetAgent(ctx context.Context, req *deckhandv1.GetAgentRequest) (*deckhandv1.GetAgentResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Agents.Find(ctx, viewer(ctx), req.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, err := h.Agents.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	number := req.GetVersion()
	if number == 0 {
		number = row.Agent.CurrentVersion
	}
	v, err := h.Agents.Version(ctx, org, id, number)
	if err != nil {
		return nil, err
	}
	m, err := h.message(ctx, row)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetAgentResponse{
		Agent: m,
		Version: &deckhandv1.AgentVersion{
			Version: v.Version, Markdown: v.Markdown, Digest: v.Digest, Script: v.Script, CreatedBy: v.CreatedBy,
			CreatedAt: timestamppb.New(v.CreatedAt),
		},
	}, nil
}

const agentsPage = 100

// ListAgents returns the agents that the caller sees by name.
func (h *Agents) ListAgents(ctx context.Context, req *deckhandv1.ListAgentsRequest) (*deckhandv1.ListAgentsResponse, error) {
	ctx, total := withTotal(ctx, req)
	size := req.GetPageSize()
	if size == 0 {
		size = agentsPage
	}
	rows, err := h.Agents.List(ctx, viewer(ctx), agent.Filter{After: req.GetPageToken(), Limit: size + 1, Deleted: req.GetDeleted()})
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListAgentsResponse{}
	if len(rows) > int(size) {
		rows = rows[:size]
		// Names are unique and sorted: the next page starts after the last one.
		res.NextPageToken = rows[size-1].Agent.Name
	}
	all := make([]db.GetAgentRow, len(rows))
	for i, row := range rows {
		all[i] = db.GetAgentRow(row)
	}
	if res.Agents, err = h.messages(ctx, all); err != nil {
		return nil, err
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// lastState is the state of a task; unspecified for none.
func lastState(word string) deckhandv1.TaskState {
	if word == "" {
		return deckhandv1.TaskState_TASK_STATE_UNSPECIFIED
	}
	return taskState(word)
}
