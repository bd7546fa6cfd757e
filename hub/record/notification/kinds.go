package notification

import "github.com/deckhand-sh/deckhand/internal/eventkind"

// Types of events, as summaries tell them apart.
const (
	typeTest           = "deckhand.test"
	triggerTripped     = string(eventkind.TriggerTripped)
	deliveryFailed     = string(eventkind.DeliveryFailed)
	auditHigh          = string(eventkind.AuditHigh)
	approvalRequested  = string(eventkind.ApprovalRequested)
	outcomeUnknown     = string(eventkind.OutcomeUnknown)
	inputRequired      = string(eventkind.InputRequired)
	stateChanged       = string(eventkind.StateChanged)
	executionFailed    = string(eventkind.ExecutionFailed)
	executionPaused    = string(eventkind.ExecutionPaused)
	executionCompleted = string(eventkind.ExecutionCompleted)
	toolSelected       = string(eventkind.ToolSelected)
	toolDenied         = string(eventkind.ToolDenied)
	toolExecuting      = string(eventkind.ToolExecuting)
	toolCompleted      = string(eventkind.ToolCompleted)
	budgetWarning      = string(eventkind.BudgetWarning)
	planWarning        = string(eventkind.PlanWarning)
	planReached        = string(eventkind.PlanReached)
	limitReached       = string(eventkind.LimitReached)
	workStopped        = string(eventkind.WorkStopped)
	agentSuspended     = string(eventkind.AgentSuspended)
	taskEscalated      = string(eventkind.TaskEscalated)
	agentRetry         = string(eventkind.AgentRetry)
	taskFailed         = "task.failed"
	taskCompleted      = "task.completed"
	agentPaused        = "agent.paused"
	reviewOpened       = string(eventkind.ReviewRequested)
	reviewRequested    = "review.requested"
	reviewCompleted    = "review.completed"
)

// noEvents is what a destination chooses that is for agents only.
const noEvents = "none"
