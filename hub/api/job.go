package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// ListJobs returns a task's background commands with what they use.
func (h *Tasks) ListJobs(ctx context.Context, req *deckhandv1.ListJobsRequest) (*deckhandv1.ListJobsResponse, error) {
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	jobs, next, err := h.Jobs.List(ctx, auth.From(ctx).OrgID, id, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListJobsResponse{NextPageToken: next}
	for _, j := range jobs {
		m := jobMessage(j.Job)
		if u := j.Now.GetUsage(); u != nil {
			m.Usage = &deckhandv1.JobUsage{CpuTime: u.GetCpuTime(), MemoryBytes: u.GetMemoryBytes(), Processes: u.GetProcesses(), LogBytes: j.Now.GetLogBytes()}
		}
		res.Jobs = append(res.Jobs, m)
	}
	return res, nil
}

// KillJob kills a background command.
func (h *Tasks) KillJob(ctx context.Context, req *deckhandv1.KillJobRequest) (*deckhandv1.KillJobResponse, error) {
	id, taskID, err := h.mine(ctx, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	j, left, err := h.Jobs.Kill(ctx, id.OrgID, taskID, req.GetJobId(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.KillJobResponse{Job: jobMessage(j), ProcessesLeft: left}, nil
}

func jobMessage(j db.Job) *deckhandv1.Job {
	out := &deckhandv1.Job{
		Id: j.ID, TaskId: j.TaskID, StepId: j.StepID, Command: j.Command, State: deckhandv1.JobState_JOB_STATE_RUNNING,
		StartedAt: timestamppb.New(j.StartedAt), Outcome: object(j.Outcome),
	}
	if j.State == job.Ended {
		out.State, out.EndedAt = deckhandv1.JobState_JOB_STATE_ENDED, timestamppb.New(*j.EndedAt)
	}
	return out
}
