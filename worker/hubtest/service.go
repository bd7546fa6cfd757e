package hubtest

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	stateStarting = deckhandv1.TaskState_TASK_STATE_STARTING
	stateRunning  = deckhandv1.TaskState_TASK_STATE_RUNNING
	stateQueued   = deckhandv1.TaskState_TASK_STATE_QUEUED
	stateWaiting  = deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL
)

// leased returns the task of a live lease; the caller must hold h.mu.
func (h *Hub) leased(lease *deckhandv1.Lease) (*Task, error) {
	task := h.tasks[lease.GetTaskId()]
	if task == nil || task.token == "" || task.token != lease.GetToken() ||
		task.Task.GetAttempt() != lease.GetAttempt() || time.Now().After(task.expires) {
		if task != nil {
			task.Stale++
			h.poke()
		}
		return nil, fault.New(fault.Precondition, "the lease on task %s has ended", lease.GetTaskId()).WithCode(fault.LeaseEnded).WithFix("stop working on it")
	}
	return task, nil
}

// RegisterWorker implements the service.
func (h *Hub) RegisterWorker(_ context.Context, req *deckhandv1.RegisterWorkerRequest) (*deckhandv1.RegisterWorkerResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := req.GetWorkerId()
	if id == "" {
		id = ident.New("worker")
	} else if !h.workers[id] {
		return nil, fault.New(fault.NotFound, "worker %s is not registered", id)
	}
	h.workers[id] = true
	h.poke()
	res := &deckhandv1.RegisterWorkerResponse{
		WorkerId: id, LeaseTtl: durationpb.New(h.cfg.LeaseTTL), RenewInterval: durationpb.New(h.cfg.LeaseTTL / 3),
	}
	if h.nats != nil {
		res.Bus = &deckhandv1.RegisterWorkerResponse_Bus{Stream: "WAKEUPS", Consumer: "pool-default"}
		if !h.cfg.NoBusURL {
			res.Bus.Url = h.nats.ClientURL()
		}
	}
	return res, nil
}

// ClaimTask implements the service.
func (h *Hub) ClaimTask(_ context.Context, req *deckhandv1.ClaimTaskRequest) (*deckhandv1.ClaimTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.workers[req.GetWorkerId()] {
		return nil, fault.New(fault.NotFound, "worker %s is not registered", req.GetWorkerId())
	}
	return h.claim(req.GetTaskId(), req.GetAttempt()), nil
}

// Claim takes a task directly.
func (h *Hub) Claim(taskID string) *deckhandv1.ClaimTaskResponse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claim(taskID, h.tasks[taskID].Task.GetAttempt()+1)
}

func (h *Hub) claim(taskID string, attempt int32) *deckhandv1.ClaimTaskResponse {
	task := h.tasks[taskID]
	if task == nil || task.Task.GetState() != stateQueued || task.Task.GetAttempt()+1 != attempt {
		return &deckhandv1.ClaimTaskResponse{}
	}
	task.Task.Attempt = attempt
	task.Task.State = stateStarting
	task.token = ident.Secret("dhl")
	task.expires = time.Now().Add(h.cfg.LeaseTTL)
	task.Batch = 0
	h.poke()
	out := &deckhandv1.ClaimTaskResponse{
		Claimed: true, Lease: &deckhandv1.Lease{TaskId: taskID, Attempt: attempt, Token: task.token},
		Task: proto.CloneOf(task.Task), Markdown: task.Markdown, Script: task.Script, Tools: task.Tools,
		Turns: clones(task.Turns), Steps: clones(task.Steps), LeaseTtl: durationpb.New(h.cfg.LeaseTTL),
	}
	if task.Checkpoint != nil {
		out.Checkpoint = proto.CloneOf(task.Checkpoint)
	}
	return out
}

// RenewLeases implements the service.
func (h *Hub) RenewLeases(_ context.Context, req *deckhandv1.RenewLeasesRequest) (*deckhandv1.RenewLeasesResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.workers[req.GetWorkerId()] {
		return nil, fault.New(fault.NotFound, "worker %s is not registered", req.GetWorkerId())
	}
	res := &deckhandv1.RenewLeasesResponse{Draining: h.draining}
	h.heard++
	h.pressure = req.GetPressure()
	h.poke()
	for _, lease := range req.GetLeases() {
		renewal := &deckhandv1.RenewLeasesResponse_Renewal{TaskId: lease.GetTaskId(), Reason: "lost"}
		task := h.tasks[lease.GetTaskId()]
		live := task != nil && task.token == lease.GetToken() && time.Now().Before(task.expires)
		switch {
		case live && h.cfg.Defer != nil && h.cfg.Defer(lease.GetTaskId()):
			renewal.Deferred, renewal.Reason = true, ""
		case live:
			task.expires = time.Now().Add(h.cfg.LeaseTTL)
			renewal.Held, renewal.Reason = true, ""
			h.renewed++
			h.poke()
		}
		res.Renewals = append(res.Renewals, renewal)
	}
	return res, nil
}

// StartTask implements the service.
func (h *Hub) StartTask(_ context.Context, req *deckhandv1.StartTaskRequest) (*deckhandv1.StartTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	task.Task.State = stateRunning
	h.poke()
	return &deckhandv1.StartTaskResponse{NodeId: "node_1", JailId: "jail_1", Scratchpad: task.Scratchpad}, nil
}

// RecordEvents implements the service.
func (h *Hub) RecordEvents(_ context.Context, req *deckhandv1.RecordEventsRequest) (*deckhandv1.RecordEventsResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	if req.GetBatch() > task.Batch {
		task.Batch = req.GetBatch()
		h.append(task, req.GetEvents())
	}
	return &deckhandv1.RecordEventsResponse{Seq: int64(len(task.Events))}, nil
}

func (h *Hub) append(task *Task, events []*deckhandv1.EventDraft) {
	task.Events = append(task.Events, clones(events)...)
	h.poke()
}

// PublishThinking implements the service.
func (h *Hub) PublishThinking(_ context.Context, req *deckhandv1.PublishThinkingRequest) (*deckhandv1.PublishThinkingResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	settled := len(req.GetText())
	if h.cfg.Settle != nil {
		settled = h.cfg.Settle(req.GetText())
	}
	piece := proto.CloneOf(req)
	piece.Text = piece.GetText()[:settled]
	task.Thinking = append(task.Thinking, piece)
	return &deckhandv1.PublishThinkingResponse{Settled: int32(settled)}, nil //nolint:gosec // 64 KiB at most
}

// RecordTurn implements the service. A thousand tokens cost one cent.
func (h *Hub) RecordTurn(_ context.Context, req *deckhandv1.RecordTurnRequest) (*deckhandv1.RecordTurnResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	turn := proto.CloneOf(req.GetTurn())
	switch n := int(turn.GetTurn()); {
	case n <= len(task.Turns):
		turn = task.Turns[n-1]
	case n != len(task.Turns)+1:
		return nil, fault.New(fault.Invalid, "turn %d comes after %d", n, len(task.Turns))
	default:
		if turn.Usage == nil {
			turn.Usage = &deckhandv1.Usage{}
		}
		turn.Usage.LimitTokens = turn.Usage.GetInputTokens() + turn.Usage.GetOutputTokens()
		turn.Usage.CostMicros = 10 * (turn.Usage.GetInputTokens() + turn.Usage.GetOutputTokens())
		task.Turns = append(task.Turns, turn)
		h.append(task, req.GetEvents())
	}
	res := &deckhandv1.RecordTurnResponse{Turn: proto.CloneOf(turn)}
	for _, index := range req.GetPropose() {
		call := calls(turn)[index]
		res.Steps = append(res.Steps, h.propose(task, &deckhandv1.ProposeStepRequest{
			Lease: req.GetLease(), Turn: turn.GetTurn(), CallIndex: index, CallId: call.GetId(), Tool: call.GetName(),
			ArgumentsJson: call.GetArgumentsJson(), Reasoning: said(turn),
		}))
	}
	return res, nil
}

func said(turn *deckhandv1.Turn) string {
	text := ""
	for _, block := range turn.GetBlocks() {
		text += block.GetText().GetText()
	}
	return text
}

func calls(turn *deckhandv1.Turn) []*deckhandv1.Block_ToolCall {
	var out []*deckhandv1.Block_ToolCall
	for _, block := range turn.GetBlocks() {
		if call := block.GetToolCall(); call != nil {
			out = append(out, call)
		}
	}
	return out
}

// ProposeStep implements the service.
func (h *Hub) ProposeStep(_ context.Context, req *deckhandv1.ProposeStepRequest) (*deckhandv1.ProposeStepResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	m := req
	if int(m.GetTurn()) > len(task.Turns) {
		return nil, fault.New(fault.Invalid, "turn %d is not stored", m.GetTurn())
	}
	return &deckhandv1.ProposeStepResponse{Step: h.propose(task, m)}, nil
}

func (h *Hub) propose(task *Task, m *deckhandv1.ProposeStepRequest) *deckhandv1.Step {
	for _, step := range task.Steps {
		if step.GetTurn() == m.GetTurn() && step.GetCallIndex() == m.GetCallIndex() {
			return proto.CloneOf(step)
		}
	}
	n := len(task.Steps) + 1
	step := &deckhandv1.Step{
		Id: fmt.Sprintf("step_%s_%d", m.GetLease().GetTaskId(), n), TaskId: m.GetLease().GetTaskId(), Number: int32(n),
		Turn: m.GetTurn(), CallIndex: m.GetCallIndex(), CallId: m.GetCallId(), Tool: m.GetTool(), Reasoning: m.GetReasoning(),
		Attempt: m.GetLease().GetAttempt(), State: deckhandv1.StepState_STEP_STATE_GRANTED,
	}
	if h.cfg.Waits != nil && h.cfg.Waits(Call{
		Tool: m.GetTool(), Arguments: arguments(m.GetArgumentsJson()), Turn: m.GetTurn(), Index: m.GetCallIndex(),
	}) {
		step.State = deckhandv1.StepState_STEP_STATE_WAITING
	}
	task.Steps = append(task.Steps, step)
	task.ended[step.GetId()] = make(chan struct{})
	h.append(task, []*deckhandv1.EventDraft{{Type: string(eventkind.ToolSelected)}})
	return proto.CloneOf(step)
}

// ExecuteStep implements the service.
func (h *Hub) ExecuteStep(ctx context.Context, req *deckhandv1.ExecuteStepRequest) (*deckhandv1.ExecuteStepResponse, error) {
	h.mu.Lock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	var step *deckhandv1.Step
	for _, s := range task.Steps {
		if s.GetId() == req.GetStepId() {
			step = s
		}
	}
	if step == nil {
		h.mu.Unlock()
		return nil, fault.New(fault.NotFound, "no step %s", req.GetStepId())
	}
	if step.GetState() == deckhandv1.StepState_STEP_STATE_GRANTED {
		step.State = deckhandv1.StepState_STEP_STATE_STARTED
		task.Runs[step.GetId()]++
		h.append(task, []*deckhandv1.EventDraft{{Type: string(eventkind.ToolExecuting)}})
		h.running.Go(func() { h.exec(task, step) })
	}
	ended := task.ended[step.GetId()]
	h.mu.Unlock()
	hold := time.NewTimer(h.cfg.Hold)
	defer hold.Stop()
	select {
	case <-ended:
	case <-hold.C:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return &deckhandv1.ExecuteStepResponse{Step: proto.CloneOf(step)}, nil
}

// exec runs a step as the node does: once, however many callers wait for it.
func (h *Hub) exec(task *Task, step *deckhandv1.Step) {
	result := Result{Observation: "ok"}
	h.mu.Lock()
	var args string
	index := int32(0)
	for _, block := range task.Turns[step.GetTurn()-1].GetBlocks() {
		if call := block.GetToolCall(); call != nil {
			if index == step.GetCallIndex() {
				args = call.GetArgumentsJson()
			}
			index++
		}
	}
	call := Call{Tool: step.GetTool(), Arguments: arguments(args), Turn: step.GetTurn(), Index: step.GetCallIndex()}
	h.mu.Unlock()
	if h.cfg.Exec != nil {
		result = h.cfg.Exec(call)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	step.State = deckhandv1.StepState_STEP_STATE_SUCCEEDED
	if result.Failed {
		step.State = deckhandv1.StepState_STEP_STATE_FAILED
	}
	step.Observation, step.ErrorCode, step.Outcome = result.Observation, string(result.Code), result.Outcome
	close(task.ended[step.GetId()])
	h.append(task, []*deckhandv1.EventDraft{{Type: string(eventkind.ToolCompleted)}})
}

// SaveCheckpoint implements the service.
func (h *Hub) SaveCheckpoint(_ context.Context, req *deckhandv1.SaveCheckpointRequest) (*deckhandv1.SaveCheckpointResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	if h.checkpoint(task, req.GetCheckpoint(), req.GetProgress()) {
		h.append(task, req.GetEvents())
	}
	return &deckhandv1.SaveCheckpointResponse{}, nil
}

func (h *Hub) checkpoint(task *Task, c *deckhandv1.Checkpoint, progress float64) bool {
	if c.GetIteration() <= task.Checkpoint.GetIteration() {
		return false
	}
	task.Checkpoint = proto.CloneOf(c)
	task.Task.Iteration, task.Task.Progress = c.GetIteration(), progress
	return true
}

// FinishTask implements the service.
func (h *Hub) FinishTask(_ context.Context, req *deckhandv1.FinishTaskRequest) (*deckhandv1.FinishTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	m := req
	task.Task.Summary, task.Task.ErrorCode, task.Task.ErrorMessage = m.GetSummary(), m.GetErrorCode(), m.GetErrorMessage()
	h.checkpoint(task, m.GetCheckpoint(), m.GetProgress())
	h.append(task, m.GetEvents())
	h.endLease(task, m.GetState(), m.GetReason())
	return &deckhandv1.FinishTaskResponse{}, nil
}

// YieldTask implements the service: a task whose answer has arrived in the
// meantime returns to the queue.
func (h *Hub) YieldTask(_ context.Context, req *deckhandv1.YieldTaskRequest) (*deckhandv1.YieldTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	h.append(task, req.GetEvents())
	to := stateQueued
	for _, step := range task.Steps {
		if step.GetState() == deckhandv1.StepState_STEP_STATE_WAITING {
			to = stateWaiting
		}
	}
	h.endLease(task, to, "yielded")
	return &deckhandv1.YieldTaskResponse{}, nil
}

// ReleaseTask implements the service.
func (h *Hub) ReleaseTask(_ context.Context, req *deckhandv1.ReleaseTaskRequest) (*deckhandv1.ReleaseTaskResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	task, err := h.leased(req.GetLease())
	if err != nil {
		return nil, err
	}
	task.Released++
	h.endLease(task, stateQueued, req.GetReason())
	return &deckhandv1.ReleaseTaskResponse{}, nil
}
