package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

const (
	// keptSessions is how many of the newest states of its browser a task has, besides those of
	// named checkpoints and of those before calls.
	keptSessions = 50
	// knownPasswords is how many of a task's passwords are kept out of results.
	knownPasswords = 50
	// summaryPages and summaryCookies bound what people see of one.
	summaryPages, summaryCookies = 20, 100
)

// browsers keeps the keys and sessions of tasks' browsers.
type browsers struct{ *Steps }

// of returns what a call of the browser needs of the hub.
func (s browsers) of(t db.Task, step db.Step, p *persona.Persona) tool.Browser {
	by := credential.Caller{OrgID: t.OrgID, NodeID: *step.NodeID, JailID: step.JailID, ExecID: step.ExecID, Persona: p}
	return tool.Browser{
		Number: int64(step.Number),
		Key:    func(ctx context.Context) (browserlink.Key, error) { return s.key(ctx, t) },
		Session: func(ctx context.Context) ([]byte, bool, error) {
			_, encoded, err := s.session(ctx, t, math.MaxInt32, step.Number)
			if errors.Is(err, errNotKept) { // of the task that this one goes on from
				return nil, true, nil
			}
			return encoded, false, err
		},
		Password: func(ctx context.Context, name string) (browserlink.Secret, error) {
			return s.cfg.Passwords.Take(ctx, by, name)
		},
		Typed:   func(ctx context.Context, problem string) error { return s.cfg.Passwords.Settle(ctx, by, problem) },
		Targets: func(ctx context.Context) []browserlink.Target { return s.targets(ctx, t, p) },
		Record:  func(ctx context.Context, keeper string) (bool, error) { return s.record(ctx, t, step, p, keeper) },
		Unrecord: func(ctx context.Context, keeper string) error {
			return s.cfg.Store.DropBrowserRecording(ctx, db.DropBrowserRecordingParams{OrgID: t.OrgID, TaskID: t.ID, ExecID: keeper})
		},
		Known: func(ctx context.Context) ([]browserlink.Secret, error) {
			tasks := []string{t.ID}
			if t.ResumedAt != 0 && t.OriginID != nil {
				tasks = append(tasks, *t.OriginID)
			}
			return s.cfg.Passwords.Known(ctx, by, tasks, knownPasswords)
		},
	}
}

// keyObject and sessionObject are what values are sealed for; see store.SealedColumns.
func keyObject(taskID string) string { return "key of the browser of " + taskID }

func sessionObject(taskID string, number int32) string {
	return fmt.Sprintf("browser session %d of %s", number, taskID)
}

// key returns the key of a task's browser, which is created with the first call.
func (s browsers) key(ctx context.Context, t db.Task) (browserlink.Key, error) {
	sealed, err := s.cfg.Store.BrowserKey(ctx, db.BrowserKeyParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		if sealed, err = s.cfg.Vault.Seal(browserlink.NewKey(), keyObject(t.ID)); err != nil {
			return nil, err
		}
		if err := s.cfg.Store.CreateBrowserKey(ctx, db.CreateBrowserKeyParams{OrgID: t.OrgID, TaskID: t.ID, KeySealed: sealed}); err != nil {
			return nil, fmt.Errorf("store the key of the browser of %s: %w", t.ID, err)
		}
		// Another hub may have been first.
		sealed, err = s.cfg.Store.BrowserKey(ctx, db.BrowserKeyParams{OrgID: t.OrgID, TaskID: t.ID})
	}
	if err != nil {
		return nil, fmt.Errorf("load the key of the browser of %s: %w", t.ID, err)
	}
	return s.cfg.Vault.Open(sealed, keyObject(t.ID))
}

// errNotKept is returned for a state that was deleted because there are many newer ones, and no
// named checkpoint has it.
var errNotKept = errors.New("the session is not kept any more")

// session returns the state that a task's browser had at the end of a turn, and before a
// step unless that is 0, as browserlink encodes it; nil if it had none. A task that was resumed
// from a checkpoint begins with that of the other.
func (s browsers) session(ctx context.Context, t db.Task, upToTurn, before int32) (summary json.RawMessage, encoded []byte, err error) {
	for {
		row, err := s.cfg.Store.BrowserSession(ctx, db.BrowserSessionParams{OrgID: t.OrgID, TaskID: t.ID, UpToTurn: upToTurn, Before: before})
		if err == nil && len(row.Sealed) == 0 {
			return nil, nil, errNotKept
		}
		if err == nil {
			encoded, err = s.cfg.Vault.Open(row.Sealed, sessionObject(row.TaskID, row.Number))
			return row.Summary, encoded, err
		}
		if !store.IsNotFound(err) {
			return nil, nil, fmt.Errorf("load the session of the browser of %s: %w", t.ID, err)
		}
		if t.ResumedAt == 0 || t.OriginID == nil {
			return nil, nil, nil
		}
		origin, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: t.OrgID, ID: *t.OriginID})
		if err != nil {
			return nil, nil, fmt.Errorf("load task %s, from which %s goes on: %w", *t.OriginID, t.ID, err)
		}
		t, upToTurn, before = origin.Task, min(upToTurn, t.ResumedAt), 0
	}
}

// keep stores the state in which a step left the browser.
func (s browsers) keep(ctx context.Context, q *db.Queries, step db.Step, after *tool.BrowserSession) error {
	if after == nil {
		return nil
	}
	summary, err := json.Marshal(s.cfg.Redact.Org(step.OrgID).Map(summaryOf(after.Session)))
	if err != nil {
		return fmt.Errorf("encode what is shown of the session of %s: %w", step.ID, err)
	}
	return s.put(ctx, q, step, after.Encoded, summary)
}

func (s browsers) put(ctx context.Context, q *db.Queries, step db.Step, encoded []byte, summary json.RawMessage) error {
	sealed, err := s.cfg.Vault.Seal(encoded, sessionObject(step.TaskID, step.Number))
	if err != nil {
		return err
	}
	err = q.PutBrowserSession(ctx, db.PutBrowserSessionParams{
		OrgID: step.OrgID, TaskID: step.TaskID, Number: step.Number, Turn: step.Turn, Sealed: sealed, Summary: summary,
	})
	if err == nil {
		_, err = q.PruneBrowserSessions(ctx, db.PruneBrowserSessionsParams{OrgID: step.OrgID, TaskID: step.TaskID, Most: keptSessions})
	}
	if err != nil {
		return fmt.Errorf("store the session of the browser after step %s: %w", step.ID, err)
	}
	return nil
}

// summaryOf returns what people see of a session, as a BrowserState: no value and no parameter
// of an address.
func summaryOf(session browserlink.Session) map[string]any {
	pages, cookies := []any{}, []any{}
	items := 0
	tabs := slices.Clone(session.Tabs)
	slices.SortStableFunc(tabs, func(a, b browserlink.Tab) int {
		return map[bool]int{true: 0, false: 1}[a.Active] - map[bool]int{true: 0, false: 1}[b.Active]
	})
	for _, t := range tabs {
		for _, stored := range t.Storage {
			items += len(stored)
		}
		u, err := url.Parse(t.URL)
		if err != nil || len(pages) >= summaryPages {
			continue
		}
		pages = append(pages, literal.Line((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()))
	}
	for _, stored := range session.Local {
		items += len(stored)
	}
	names := slices.Clone(session.Cookies)
	slices.SortStableFunc(names, func(a, b browserlink.Cookie) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range names[:min(len(names), summaryCookies)] {
		cookies = append(cookies, literal.Line(c.Name+" of "+c.Domain))
	}
	return map[string]any{"pages": pages, "cookies": cookies, "storedItems": items}
}

// back brings the browser of a task back to what it was at one of its named checkpoints,
// once for a step. It reports whether there is a browser: the next call starts it anew. If its
// session of that point is not kept any more, it stays as it is, and the error is errNotKept.
func (s browsers) back(ctx context.Context, t db.Task, step db.Step, node machine.Link, named db.CheckpointNamedRow) (bool, error) {
	_, err := s.cfg.Store.BrowserKey(ctx, db.BrowserKeyParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("load the key of the browser of %s: %w", t.ID, err)
	}
	upTo := named.Iteration
	if named.Step != 0 {
		upTo++ // the calls before it in its turn count
	}
	summary, encoded, err := s.session(ctx, t, upTo, named.Step)
	if err != nil {
		return false, err
	}
	if encoded == nil { // there was none yet
		summary = json.RawMessage("{}")
		if encoded, err = browserlink.EncodeSession(browserlink.Session{}); err != nil {
			return false, err
		}
	}
	if err := s.put(ctx, s.cfg.Store.Queries, step, encoded, summary); err != nil {
		return false, err
	}
	if err := tool.EndBrowser(ctx, node, step.JailID, t.ID); err != nil {
		return false, fmt.Errorf("end the browser of %s, which goes back: %w", t.ID, err)
	}
	return true, nil
}
