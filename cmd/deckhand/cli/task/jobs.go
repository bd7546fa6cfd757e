package task

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func jobsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "jobs TASK", Short: "List a task's jobs: its commands in the background",
		Long: `Lists the commands that an agent started in the background: those that run,
with the processor time and memory that they use, then those that have ended.
Their output: deckhand task logs STEP.`,
		Example: "deckhand task jobs task_3q9",
		Args:    env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			jobs, err := sdk.All(cmd.Context(), client.Tasks.ListJobs, func(token string) *deckhandv1.ListJobsRequest {
				return &deckhandv1.ListJobsRequest{TaskId: args[0], PageToken: token}
			}, (*deckhandv1.ListJobsResponse).GetJobs)
			if err != nil {
				return err
			}
			if len(jobs) == 0 {
				e.Notef("no jobs: the task has started nothing in the background")
			}
			return output.List(e.Printer(), jobNoun(e), jobs)
		},
	}
}

func killJobCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "kill-job TASK JOB", Short: "Kill a job of a task", Long: "Kills a command in the background with all its processes. The task goes on.",
		Example: "deckhand task kill-job task_3q9 job_7bc",
		Args:    env.Args("TASK", "JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Tasks.KillJob(cmd.Context(), &deckhandv1.KillJobRequest{TaskId: args[0], JobId: args[1]})
			if err != nil {
				return err
			}
			e.Notef("%d processes are left", res.GetProcessesLeft())
			return output.Brief(e.Printer(), jobNoun(e), res.GetJob())
		},
	}
}

func jobNoun(e *env.Env) output.Noun[*deckhandv1.Job] {
	return output.Noun[*deckhandv1.Job]{
		Name: (*deckhandv1.Job).GetId,
		Columns: []output.Column[*deckhandv1.Job]{
			{Header: "id", Value: (*deckhandv1.Job).GetId},
			{Header: "state", Value: func(x *deckhandv1.Job) string { return output.EnumName(x.GetState()) }},
			{Header: "age", Value: func(x *deckhandv1.Job) string { return e.Age(x.GetStartedAt()) }},
			{Header: "cpu", Value: func(x *deckhandv1.Job) string {
				if x.GetUsage() == nil {
					return ""
				}
				return x.GetUsage().GetCpuTime().AsDuration().Round(10 * time.Millisecond).String()
			}},
			{Header: "memory", Value: func(x *deckhandv1.Job) string { return output.Size(x.GetUsage().GetMemoryBytes()) }},
			{Header: "end", Value: jobEnd},
			{Header: "command", Value: (*deckhandv1.Job).GetCommand, Max: 60},
			{Header: "step", Value: (*deckhandv1.Job).GetStepId},
			{Header: "processes", Value: func(x *deckhandv1.Job) string { return fmt.Sprint(x.GetUsage().GetProcesses()) }, Wide: true},
			{Header: "started", Value: func(x *deckhandv1.Job) string { return output.Moment(x.GetStartedAt()) }, Wide: true},
			{Header: "ended", Value: func(x *deckhandv1.Job) string { return output.Moment(x.GetEndedAt()) }, Wide: true},
		},
	}
}

// jobEnd is how a job ended.
func jobEnd(x *deckhandv1.Job) string {
	if x.GetState() != deckhandv1.JobState_JOB_STATE_ENDED {
		return ""
	}
	reason := output.Field(x.GetOutcome(), "end_reason")
	if reason == "exited" {
		return "exit status " + cmp.Or(output.Field(x.GetOutcome(), "exit_code"), "0")
	}
	return reason
}
