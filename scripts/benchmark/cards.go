package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/node/daemon"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// What the console shows while it is measured.

// runningTasks makes n agents with a task each, which one worker holds, and
// returns the ids of the jails that would be theirs, too.
func (s *stack) runningTasks(ctx context.Context, n int) (*sdk.Client, []*deckhandv1.Lease, []string, error) {
	token, err := s.hub.WorkerToken()
	if err != nil {
		return nil, nil, nil, err
	}
	workers, err := sdk.New(sdk.Config{URL: s.hub.URL(), Token: token})
	if err != nil {
		return nil, nil, nil, err
	}
	registered, err := workers.Workers.RegisterWorker(ctx, &deckhandv1.RegisterWorkerRequest{Name: "benchmark", Slots: int32(n)}) //nolint:gosec // small
	if err != nil {
		return nil, nil, nil, err
	}
	var leases []*deckhandv1.Lease
	var jails []string
	for i := range n {
		name := fmt.Sprintf("card-%03d", i)
		applied, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Script: noopScript, Markdown: strings.Replace(noopPersona, "name: noop", "name: "+name+"\nnodes: {names: [simulated]}", 1),
		})
		if err != nil {
			return nil, nil, nil, err
		}
		jails = append(jails, "jail_"+strings.TrimPrefix(applied.GetAgent().GetId(), "agent_"))
		submitted, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: name})
		if err != nil {
			return nil, nil, nil, err
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			claimed, err := workers.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{
				WorkerId: registered.GetWorkerId(), TaskId: submitted.GetTask().GetId(), Attempt: 1,
			})
			if err != nil {
				return nil, nil, nil, err
			}
			if claimed.GetClaimed() {
				lease := claimed.GetLease()
				go keep(ctx, workers, registered.GetWorkerId(), lease)
				if _, err := workers.Workers.StartTask(ctx, &deckhandv1.StartTaskRequest{Lease: lease}); err != nil {
					return nil, nil, nil, err
				}
				leases = append(leases, lease)
				break
			}
			if time.Now().After(deadline) {
				return nil, nil, nil, errors.New("a task was not admitted within a minute")
			}
		}
	}
	return workers, leases, jails, nil
}

// sample returns what jails use now: something else each time. There may be none
// yet.
func sample(jails *[]string) *nodev1.TelemetrySample {
	out := &nodev1.TelemetrySample{Time: timestamppb.Now(), Host: usage("")}
	if jails == nil {
		return out
	}
	for _, id := range *jails {
		out.Jails = append(out.Jails, usage(id))
	}
	return out
}

func usage(jail string) *nodev1.Usage {
	return &nodev1.Usage{
		JailId: jail, CpuMillis: proto.Int64(rand.Int64N(2000)), //nolint:gosec // no secret
		MemoryBytes: proto.Int64(rand.Int64N(1 << 30)), MemoryLimitBytes: proto.Int64(1 << 30), //nolint:gosec // no secret
	}
}

// Commands whose output is looked at: many lines, and a long one.
var printers = []string{
	`seq -f 'line %.0f of the output, which says what was done and how it went' 100000`,
	`head -c 1000000 /dev/zero | tr '\0' x; echo`,
	`seq 5000000`,
}

// printed runs the printers in a jail of a real node, which it starts, and
// returns the id of the task whose steps they are.
func (s *stack) printed(ctx context.Context, m *nodeRig) (string, error) {
	node, err := daemon.Config{
		DataDir: filepath.Join(m.dir, "daemon"), HubURL: s.hub.URL(), EdgeAddress: s.hub.EdgeAddress(), Containerd: m.containerd.Address(),
		Namespace: m.namespace + "-ui", MakeJoinToken: s.hub.LocalJoinToken, EndJails: true,
	}.Complete(ctx)
	if err != nil {
		return "", err
	}
	if err := s.start(ctx, node); err != nil {
		return "", err
	}
	lease, workers, err := s.runningTask(ctx)
	if err != nil {
		return "", err
	}
	for i, command := range printers {
		arguments, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			return "", err
		}
		step, err := workers.Workers.ProposeStep(ctx, &deckhandv1.ProposeStepRequest{
			Lease: lease, Turn: 1, CallIndex: int32(i) + 1, CallId: "c", Tool: "shell_exec", ArgumentsJson: string(arguments), //nolint:gosec // small
		})
		if err != nil {
			return "", err
		}
		done, err := workers.Workers.ExecuteStep(ctx, &deckhandv1.ExecuteStepRequest{
			Lease: lease, StepId: step.GetStep().GetId(),
		})
		if err != nil {
			return "", err
		}
		if state := done.GetStep().GetState(); state != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			return "", fmt.Errorf("the step is %s: %s", state, done.GetStep().GetObservation())
		}
	}
	return lease.GetTaskId(), nil
}
