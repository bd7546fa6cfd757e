package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	auditEntries = 50_000
	auditRuns    = 5
)

// audits measures how many entries one leader seals a second, into signed heads
// in the database, and how many of the export are verified a second without it.
func audits(ctx context.Context) (_ result, err error) {
	s, err := newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	st, err := store.Open(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer st.Close()
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, conn.Close(ctx)) }()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	sealer := audit.NewSealer(audit.SealerConfig{Store: st, Key: key, Recorder: event.NewRecorder(event.RecorderConfig{
		Store: st, Redact: &redact.Redactor{}, Notify: func(string, string) {},
	})})
	var sealed, verified []float64
	for range auditRuns {
		if _, err := conn.Exec(ctx, `INSERT INTO audit_entries (org_id, actor_kind, actor_id, action, object_kind, object_id, before, after, reason, address, user_agent)
			SELECT 'org_bench', 'user', 'alice', 'task.paused', 'task', 'task_' || n, '{"state": "running"}', '{"state": "paused", "reason": "by a person"}',
				'it is late', '192.0.2.7:4711', 'deckhand-cli/1.0' FROM generate_series(1, $1::int) n`, auditEntries); err != nil {
			return nil, err
		}
		begin := time.Now()
		n, err := sealer.Seal(ctx)
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, float64(n)/time.Since(begin).Seconds())
		var out bytes.Buffer
		if err := audit.Export(ctx, st, key, "org_bench", 0, &out); err != nil {
			return nil, err
		}
		begin = time.Now()
		report, err := auditlog.Verify(&out, public)
		if err != nil {
			return nil, err
		}
		verified = append(verified, float64(report.Entries)/time.Since(begin).Seconds())
	}
	return result{"unit": "per s", "ours": median(sealed), "verify_per_s": median(verified), "n": auditEntries * auditRuns}, nil
}
