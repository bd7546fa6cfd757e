package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	cronTriggers = 10_000
	cronSpread   = 10 * time.Second
	cronIdle     = 5 * time.Second
)

// cronLateness measures how late ten thousand schedules fire that all come due
// at two moments, and what the hub uses while none does.
func cronLateness(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	made, err := s.client.Triggers.CreateTrigger(ctx, &deckhandv1.CreateTriggerRequest{
		Name: "first", AgentId: "noop", Kind: deckhandv1.TriggerKind_TRIGGER_KIND_CRON,
		Spec: &deckhandv1.TriggerSpec{Filter: "false", Cron: &deckhandv1.CronSpec{Schedule: "0 0 1 1 *"}},
	})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	id := made.GetTrigger().GetId()
	if _, err := pool.Exec(ctx, `INSERT INTO triggers (id, org_id, agent_id, name, kind, spec, created_by, slot_at, next_at)
		SELECT 'trig_' || lpad(n::text, 20, '0'), org_id, agent_id, 'cron-' || n, kind, spec, created_by, slot_at, next_at
		FROM triggers, generate_series(1, $2) AS n WHERE id = $1`, id, cronTriggers-1); err != nil {
		return nil, err
	}
	before, err := cpuTime()
	if err != nil {
		return nil, err
	}
	time.Sleep(cronIdle)
	after, err := cpuTime()
	if err != nil {
		return nil, err
	}
	var lateness []time.Duration
	rounds := []string{"at one moment", "over ten seconds"}
	out := result{}
	for round, spread := range []time.Duration{0, cronSpread} {
		// In three seconds, at one moment and spread out.
		if _, err := pool.Exec(ctx, `UPDATE triggers SET next_at = d.at, slot_at = d.at FROM (
				SELECT id, clock_timestamp() + interval '3 seconds' + row_number() OVER (ORDER BY id) * $1::interval / $2 AS at FROM triggers) d
			WHERE d.id = triggers.id`, spread, cronTriggers); err != nil {
			return nil, err
		}
		var took []time.Duration
		for begin := time.Now(); len(took) < cronTriggers; time.Sleep(200 * time.Millisecond) {
			if time.Since(begin) > 2*time.Minute {
				return nil, fmt.Errorf("only %d of %d schedules fired", len(took), cronTriggers)
			}
			if took, err = fired(ctx, pool); err != nil {
				return nil, err
			}
		}
		slices.Sort(took)
		out["p99 "+rounds[round]], out["p50 "+rounds[round]] = percentile(took, 99), percentile(took, 50)
		lateness = took
		if _, err := pool.Exec(ctx, "DELETE FROM deliveries"); err != nil {
			return nil, err
		}
	}
	out["unit"], out["ours"], out["n"] = "ms late, p99", percentile(lateness, 99), len(lateness)
	out["idle_cpu_percent"] = 100 * (after - before).Seconds() / cronIdle.Seconds()
	return out, nil
}

// cpuTime is what this process, the hub in it, has used.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// fired returns how late each firing is: received_at is when its statement ran.
func fired(ctx context.Context, pool *pgxpool.Pool) ([]time.Duration, error) {
	rows, err := pool.Query(ctx, "SELECT received_at - slot_at FROM deliveries")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []time.Duration
	for rows.Next() {
		var d time.Duration
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}
