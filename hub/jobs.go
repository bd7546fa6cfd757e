package hub

import (
	"context"
	"time"

	"github.com/deckhand-sh/deckhand/hub/api/idempotency"
	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/learn/insight"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/maintenance/periodic"
	"github.com/deckhand-sh/deckhand/hub/maintenance/restore"
	"github.com/deckhand-sh/deckhand/hub/maintenance/secretwatch"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/job"
	"github.com/deckhand-sh/deckhand/hub/work/outage"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/hub/work/takeover"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/trigger"
	"github.com/deckhand-sh/deckhand/hub/work/wait"
)

// keepOwnCalls is how long a call of a model is kept that the hub made for itself. Its cost stays
// counted in the budgets.
const keepOwnCalls = 400 * 24 * time.Hour

// assembleJobs creates what the leader does periodically, and what keeps the
// redactors up to date.
func (h *Hub) assembleJobs() {
	c := h.cfg
	assembleRollouts(h)
	sweeper := c.Log.Named("sweeper")
	h.leader.Add("sweeper", periodic.New(min(c.LeaseTTL/renewals, maxSweep), sweeper,
		periodic.Job{Name: "put tasks of lost workers back into the queue", Do: func(ctx context.Context) error {
			n, err := h.leases.Sweep(ctx)
			if n > 0 {
				sweeper.Info("put tasks of lost workers back into the queue", "tasks", n)
			}
			return err
		}},
		periodic.Job{Name: "queue the tasks whose time has come", Do: periodic.Uncounted(h.tasks.Due)},
		periodic.Job{Name: "give kill orders again", Do: h.kills.Sweep},
		periodic.Job{Name: "release node locks whose time is over", Do: h.nodes.ReleaseOver},
		periodic.Job{Name: "end take-overs of browsers that a hub left behind", Do: (&takeover.Takeovers{Store: h.store, Recorder: h.recorder}).Sweep},
		periodic.Job{Name: "end commands whose step has ended", Do: h.execs.KillOrphans},
		periodic.Job{Name: "settle lost model calls", Do: periodic.Uncounted(h.budgets.Sweep)},
		periodic.Job{Name: "count late model calls", Do: periodic.Uncounted(h.reports.CountLate)},
		periodic.Job{Name: "open and withdraw inbox items about what ended", Every: stopSweep, Do: func(ctx context.Context) error { return stop.Sweep(ctx, h.store, h.recorder) }},
		periodic.Job{Name: "resume the tasks whose budget has begun again", Every: stopSweep, Do: h.inbox.NextPeriods},
		periodic.Job{Name: "delete sessions of browsers that no checkpoint needs", Every: expiryInterval, Do: periodic.Uncounted(func(ctx context.Context) (int64, error) {
			return h.store.ExpireBrowserSessions(ctx, task.MaxCheckpointTime)
		})},
		periodic.Job{Name: "delete expired checkpoints", Every: expiryInterval, Do: periodic.Uncounted(h.store.ExpireCheckpoints)},
	))
	h.leader.Add("background commands", periodic.New(job.SweepEvery, c.Log.Named("job"), periodic.Job{Name: "see which background commands have ended", Do: h.jobs.Sweep}))
	restores := restore.New(restore.Config{
		Store: h.store, Recorder: h.recorder, Redact: c.Redact, Node: h.node, Log: c.Log.Named("restore"),
	})
	h.leader.Add("restores", periodic.New(restore.SweepEvery, c.Log.Named("restore"), periodic.Job{Name: "compare nodes with a restored database", Do: restores.Sweep}))
	waits := wait.New(wait.Config{Store: h.store, Recorder: h.recorder, Node: h.node, Log: c.Log.Named("waits")})
	h.leader.Add("waits", periodic.New(wait.SweepEvery, c.Log.Named("waits"), periodic.Job{Name: "end the waits that are over", Do: waits.Sweep}))
	outages := outage.New(outage.Config{Store: h.store, Recorder: h.recorder, Log: c.Log.Named("outage")})
	h.leader.Add("outages", periodic.New(outage.SweepEvery, c.Log.Named("outage"), periodic.Job{Name: "see which models answer again", Do: outages.Sweep}))
	learner := &pattern.Learner{Patterns: h.patterns, Failures: insight.Record, Teaches: func(ctx context.Context, q *db.Queries, t db.Task) (bool, error) {
		return patterned(ctx, h.agents, q, t)
	}}
	h.leader.Add("patterns", periodic.New(pattern.LearnEvery, c.Log.Named("pattern"), periodic.Job{Name: "learn from ended runs", Do: learner.Learn},
		periodic.Job{Name: "delete patterns for good", Every: expiryInterval, Do: learner.Purge}))
	h.leader.Add("embeddings", periodic.New(knowledge.EmbedEvery, c.Log.Named("knowledge"), periodic.Job{Name: "embed passages", Do: h.knowledge.Embeddings.Embed}))
	h.leader.Add("wording", periodic.New(pattern.WordEvery, c.Log.Named("pattern"), periodic.Job{Name: "have patterns worded", Do: h.patterns.Word}))
	h.leader.Add("housekeeping", periodic.New(housekeepingInterval, c.Log.Named("housekeeping"),
		periodic.Job{Name: "delete old images from the nodes", Every: image.CollectEvery, Do: h.images.Collect},
		periodic.Job{Name: "delete what was kept long enough", Do: h.retention.Collect},
		periodic.Job{Name: "delete old memories", Do: h.memories.Prune},
		periodic.Job{Name: "delete old events", Do: func(ctx context.Context) error { return event.PruneAll(ctx, h.store, c.EventRetention) }},
		periodic.Job{Name: "delete expired certificate authorities of jails", Do: h.authorities.Prune},
		periodic.Job{Name: "delete old records of requests with credentials", Do: func(ctx context.Context) error { return h.egress.Prune(ctx, c.EventRetention) }},
		periodic.Job{Name: "delete old model calls of the hub's own", Every: expiryInterval, Do: func(ctx context.Context) error { return h.store.PruneModelCalls(ctx, keepOwnCalls) }},
		periodic.Job{Name: "delete old deliveries", Do: h.triggers.Prune},
		periodic.Job{Name: "free the names of deleted agents", Do: h.agents.Release},
		periodic.Job{Name: "delete old notifications", Do: h.notify.Prune},
		periodic.Job{Name: "delete old sessions", Do: h.sessions.Prune},
		periodic.Job{Name: "delete old challenges of passkeys", Do: h.passkeys.Prune},
		periodic.Job{Name: "delete old attachments of questions", Every: expiryInterval, Do: h.inbox.Attachments.Prune},
		periodic.Job{Name: "delete old idempotency keys", Do: func(ctx context.Context) error {
			return h.store.DeleteIdempotencyKeys(ctx, idempotency.Keep)
		}},
		periodic.Job{Name: "delete the waits of calls that have ended", Do: h.store.DeleteWaits},
		periodic.Job{Name: "delete outages that no task waits for", Do: h.store.DeleteOldOutages},
		periodic.Job{Name: "forget calls that no limit counts", Do: h.policies.Prune},
		periodic.Job{Name: "forget hubs that died", Do: h.self.Forget},
		periodic.Job{Name: "follow commands that a hub left behind", Do: h.execs.AdoptAll},
		periodic.Job{Name: "clear setups of images that a hub left behind", Every: setup.SweepEvery, Do: h.setups.Sweep},
		periodic.Job{Name: "end syncs of knowledge that a hub left behind", Every: knowledge.SweepEvery, Do: h.knowledge.Sweep},
	))
	h.secrets = secretwatch.New(secretwatch.Config{
		Store: h.store, Vault: h.vault, Redact: c.Redact, Credentials: h.credentials, Triggers: h.triggers, Destinations: h.notify, Registries: h.images, Egress: h.egress, Log: c.Log.Named("secrets"),
	})
}

// patterned reports whether a task teaches patterns and gets them: its agent's persona says so.
// A task without an agent does neither.
func patterned(ctx context.Context, agents *agent.Service, q *db.Queries, t db.Task) (bool, error) {
	if t.AgentID == "" {
		return false, nil
	}
	p, err := agents.PersonaOf(ctx, q, t.OrgID, t.AgentID, t.AgentVersion)
	if err != nil {
		return false, err
	}
	return p.Context.Patterns, nil
}

// matching returns what looks for patterns on behalf of the person behind a task.
func matching(h *Hub) func(ctx context.Context, t db.Task, query string) ([]tool.PatternHit, error) {
	return func(ctx context.Context, t db.Task, query string) ([]tool.PatternHit, error) {
		if yes, err := patterned(ctx, h.agents, h.store.Queries, t); err != nil || !yes {
			return nil, err
		}
		return h.patterns.ForTool(ctx, t, query)
	}
}

// subscribe connects the parts that act on committed changes of others.
func (h *Hub) subscribe(changes *change.Feed) {
	change.Subscribe(changes, func(c change.QueueChanged) { h.admission.Kick(c.OrgID) })
	change.Subscribe(changes, func(c change.TaskEnded) { h.metrics.Ended(c.Task) })
	change.Subscribe(changes, func(c change.TaskTreeChanged) { h.subtasks.Moved(c.Task) })
	change.Subscribe(changes, func(change.RightsChanged) {
		h.tokens.Forget()
		h.sessions.Forget()
	})
	change.Subscribe(changes, func(c change.TaskEnded) {
		h.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), endedTimeout)
			defer cancel()
			h.endCredentialsOf(ctx, c.Task)
		})
	})
	change.Subscribe(changes, func(c change.TaskEnded) {
		if !trigger.Started(c.Task) {
			return
		}
		h.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), endedTimeout)
			defer cancel()
			h.triggers.Ended(ctx, c.Task)
		})
	})
	h.reconciler.Subscribe(changes)
}
