package output

import (
	"charm.land/lipgloss/v2"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Dim is the style of what matters less.
var Dim = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)

// Bold is the style of what matters most, Warn of what is worth a look, and Bad of
// what failed.
var (
	Bold = lipgloss.NewStyle().Bold(true)
	Warn = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	Bad  = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// TaskState returns a task's state as people write it; "partly done" for a failed task whose
// agent did a part of the goal.
func TaskState(t *deckhandv1.Task) string {
	if partlyDone(t) {
		return "partly done"
	}
	return EnumName(t.GetState())
}

// TaskStyle returns the style of a task's state.
func TaskStyle(t *deckhandv1.Task) lipgloss.Style {
	if partlyDone(t) {
		return lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	}
	return StateStyle(t.GetState())
}

func partlyDone(t *deckhandv1.Task) bool {
	return t.GetState() == deckhandv1.TaskState_TASK_STATE_FAILED && t.GetErrorCode() == string(fault.PartlyDone)
}

// StateStyle returns the style of a task's state.
func StateStyle(s deckhandv1.TaskState) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch s {
	case deckhandv1.TaskState_TASK_STATE_SUCCEEDED:
		return style.Foreground(lipgloss.Green)
	case deckhandv1.TaskState_TASK_STATE_FAILED, deckhandv1.TaskState_TASK_STATE_TIMED_OUT, deckhandv1.TaskState_TASK_STATE_ESCALATED:
		return style.Foreground(lipgloss.Red)
	case deckhandv1.TaskState_TASK_STATE_STARTING, deckhandv1.TaskState_TASK_STATE_RUNNING:
		return style.Foreground(lipgloss.Cyan)
	case deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT,
		deckhandv1.TaskState_TASK_STATE_PAUSED, deckhandv1.TaskState_TASK_STATE_REVIEW_NEEDED:
		return style.Foreground(lipgloss.Yellow)
	}
	return style
}

// StepStyle returns the style of a step's state.
func StepStyle(s deckhandv1.StepState) lipgloss.Style {
	style := lipgloss.NewStyle()
	switch s {
	case deckhandv1.StepState_STEP_STATE_SUCCEEDED:
		return style.Foreground(lipgloss.Green)
	case deckhandv1.StepState_STEP_STATE_FAILED, deckhandv1.StepState_STEP_STATE_DENIED, deckhandv1.StepState_STEP_STATE_UNKNOWN:
		return style.Foreground(lipgloss.Red)
	case deckhandv1.StepState_STEP_STATE_STARTED:
		return style.Foreground(lipgloss.Cyan)
	case deckhandv1.StepState_STEP_STATE_WAITING, deckhandv1.StepState_STEP_STATE_DEFERRED:
		return style.Foreground(lipgloss.Yellow)
	}
	return style
}

// The styles of the labels of a task's events.
var (
	PhaseStyle = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	ToolStyle  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	WaitStyle  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	FailStyle  = lipgloss.NewStyle().Foreground(lipgloss.Red)
)
