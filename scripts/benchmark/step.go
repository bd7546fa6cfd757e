package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// organisation is that of the first start.
const organisation = "org_default"

// instant is a node whose commands have ended as soon as they are started, so
// that only the hub is measured.
type instant struct {
	machine.Link
	nodev1.ExecServiceClient
}

func (n instant) Exec() nodev1.ExecServiceClient { return n }

func (instant) StartExec(_ context.Context, req *nodev1.StartExecRequest, _ ...grpc.CallOption) (*nodev1.StartExecResponse, error) {
	now := timestamppb.Now()
	return &nodev1.StartExecResponse{Exec: &nodev1.Exec{
		ExecId: req.GetSpec().GetExecId(), JailId: req.GetSpec().GetJailId(), State: nodev1.ExecState_EXEC_STATE_ENDED,
		EndReason: nodev1.EndReason_END_REASON_EXITED, CreatedAt: now, StartedAt: now, EndedAt: now,
	}}, nil
}

// ledgerStep measures what the effect ledger adds to a command: the decision
// with the intent, the start, and the outcome, each committed with its events,
// against two bare inserts that are committed one by one.
func ledgerStep(ctx context.Context) (_ result, err error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	claimed, _, err := s.runningTask(ctx)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer st.Close()
	v, err := vault.Open(filepath.Join(s.dir, "keyset"))
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry()
	if err != nil {
		return nil, err
	}
	hidden := &redact.Redactor{}
	steps := step.New(step.Config{
		Store: st, Plans: quota.New(quota.Config{Store: st}), Role: user.New(user.Config{Store: st}).Role, Policies: policy.New(policy.Config{Store: st, Vault: v, Redact: hidden}), Agents: agent.NewService(st, nil, persona.Vocabulary{Tools: tools.Names()}), Tools: tools, Vault: v, Redact: hidden,
		Recorder: event.NewRecorder(event.RecorderConfig{
			Store: st, Redact: hidden, Notify: func(string, string) {},
		}),
		Node:       func(string) (machine.Link, error) { return instant{}, nil },
		AckOutcome: func(string, string) {}, NodeWait: time.Second, Log: hclog.NewNullLogger(),
	})
	peer, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, peer.Close(ctx)) }()
	if _, err := peer.Exec(ctx, `CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL)`); err != nil {
		return nil, err
	}
	const n = 500
	le := lease.Lease{TaskID: claimed.GetTaskId(), Attempt: claimed.GetAttempt(), Token: claimed.GetToken()}
	calls := int32(0)
	a, b, err := pair(n, func() error {
		calls++
		granted, err := steps.Propose(ctx, organisation, le, step.Proposal{
			Turn: 1, CallIndex: calls, CallID: "c", Tool: "shell_exec", ArgumentsJSON: `{"command":"true"}`, AtOnce: true,
		})
		if err != nil {
			return err
		}
		ended, err := steps.Execute(ctx, organisation, le, granted.ID)
		if err == nil && step.State(ended.State) != step.Succeeded {
			err = fmt.Errorf("step %s is %s: %s", ended.ID, ended.State, ended.Observation)
		}
		return err
	}, func() error {
		for range 2 {
			if _, err := peer.Exec(ctx, `INSERT INTO bare (payload) VALUES ($1)`, `{"command":"true"}`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), "two bare INSERT, each committed", n)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}
