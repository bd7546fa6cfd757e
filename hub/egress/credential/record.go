package credential

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// maxRecords bounds what a node reports at once.
	maxRecords = 1000
	// Bounds of what a record says, in bytes.
	maxPath, maxWord, maxProblem = 2 << 10, 255, 500
	// maxHosts bounds the hosts that an event names.
	maxHosts = 10
	// clockSlack is how far a node's clock may be ahead.
	clockSlack = time.Minute
)

// Record stores what a node reports of requests with credentials, each once, and appends an
// event for each credential to the history of the tasks whose commands sent them. Records of
// jails that the organisation does not have on that node are ignored.
func (c *Credentials) Record(ctx context.Context, orgID, nodeID string, records []egresslink.Record) error {
	if len(records) == 0 {
		return nil
	}
	if len(records) > maxRecords {
		return fault.New(fault.Invalid, "there are %d records; at most %d are taken at once", len(records), maxRecords).WithFix("send fewer")
	}
	who, err := c.senders(ctx, orgID, nodeID, records)
	if err != nil {
		return err
	}
	return c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		var groups []*usage
		refused := map[string]db.RecordCredentialRequestParams{} // the last of each credential
		for _, r := range records {
			from, known := who[r.JailID]
			if !known || r.ID == "" || !agentName.MatchString(r.Credential) {
				continue
			}
			row := c.row(orgID, nodeID, r)
			row.TaskID, row.StepID = from.of(r.ExecID)
			n, err := tx.RecordCredentialRequest(ctx, row)
			if err != nil {
				return fmt.Errorf("record request %s of node %s: %w", r.ID, nodeID, err)
			}
			if n > 0 && row.Status == http.StatusUnauthorized {
				refused[row.Credential] = row
			}
			if n == 0 || row.TaskID == nil || row.Credential == egresslink.HubCredential {
				// It is recorded, or is no task's, or is a program's call of the hub: one that reads
				// its task's history would lengthen it each time.
				continue
			}
			at := slices.IndexFunc(groups, func(g *usage) bool { return g.task == *row.TaskID && g.credential == row.Credential })
			if at < 0 {
				at = len(groups)
				groups = append(groups, &usage{task: *row.TaskID, credential: row.Credential})
			}
			groups[at].add(row)
		}
		// Tasks are locked in the order of their ids.
		slices.SortStableFunc(groups, func(a, b *usage) int { return cmp.Compare(a.task, b.task) })
		for _, g := range groups {
			if err := tx.Append(orgID, g.task, event.Hub, event.Draft{Type: eventkind.CredentialUsed, Payload: g.payload()}); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(refused)) {
			if err := openRefused(ctx, tx, refused[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// openRefused opens the inbox item of a credential that its server refuses. One that was
// rotated after the request was sent is another one by now.
func openRefused(ctx context.Context, tx *event.Tx, r db.RecordCredentialRequestParams) error {
	c, err := tx.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: r.OrgID, Name: r.Credential})
	if store.IsNotFound(err) || err == nil && c.RotatedAt.After(r.At) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load credential %s: %w", r.Credential, err)
	}
	return stop.OpenCredential(ctx, tx, stop.Stop{
		OrgID: r.OrgID, Cause: c.Version, Why: fmt.Sprintf("%s %s%s was answered with HTTP %d.", r.Method, r.Host, r.Path, r.Status),
		Detail: stop.Detail{Credential: c.Name, Reason: stop.Refused, Host: r.Host, Status: r.Status, Method: r.Method},
	})
}

// row converts a record. What a node says is bounded, and is masked.
func (c *Credentials) row(orgID, nodeID string, r egresslink.Record) db.RecordCredentialRequestParams {
	mask := c.cfg.Redact.Org(orgID)
	at := r.At
	if now := time.Now(); at.IsZero() || at.After(now.Add(clockSlack)) {
		at = now
	}
	return db.RecordCredentialRequestParams{
		OrgID: orgID, ID: nodeID + "-" + bounded(mask, r.ID, maxWord), Credential: bounded(mask, r.Credential, maxWord), NodeID: nodeID, JailID: r.JailID,
		ExecID: bounded(mask, r.ExecID, maxWord), Method: bounded(mask, r.Method, maxWord), Host: bounded(mask, r.Host, maxWord),
		Path: bounded(mask, r.Path, maxPath), Status: int32(min(max(r.Status, 0), 999)), //nolint:gosec // it is within bounds
		SentBytes: max(r.SentBytes, 0), ReceivedBytes: max(r.ReceivedBytes, 0), At: at, Duration: max(r.Duration, 0), Problem: bounded(mask, r.Problem, maxProblem),
	}
}

// bounded returns text that is masked and has at most so many bytes.
func bounded(mask *redact.Redactor, text string, most int) string {
	if len(text) > 4*most {
		text = text[:4*most]
	}
	if text = mask.String(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// identifier is what ids of jails and commands look like.
var identifier = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// sender is what a jail's requests are from.
type sender struct {
	// task runs in the jail now, if there is one.
	task *string
	// steps are those of its commands.
	steps map[string]db.StepsOfExecsRow
}

// of returns the task and the step of a command, nil where they are not known.
func (s sender) of(execID string) (taskID, stepID *string) {
	if step, ok := s.steps[execID]; ok {
		return &step.TaskID, &step.ID
	}
	if execID == "" || strings.HasPrefix(execID, "step_") {
		return s.task, nil
	}
	return nil, nil // a person's command
}

// senders returns what the jails of some records are, of those that the organisation has on
// the node. Which command a request is from is what the request says, which holds within one
// jail only.
func (c *Credentials) senders(ctx context.Context, orgID, nodeID string, records []egresslink.Record) (map[string]sender, error) {
	var jails, execs, steps []string
	for _, r := range records {
		if identifier.MatchString(r.JailID) && !slices.Contains(jails, r.JailID) {
			jails = append(jails, r.JailID)
		}
		// What a command says it is may be anything.
		if identifier.MatchString(r.ExecID) && !slices.Contains(execs, r.ExecID) {
			execs = append(execs, r.ExecID)
			steps = append(steps, r.ExecID)
			// The second run of a step has its id and a number.
			if at := strings.LastIndexByte(r.ExecID, '_'); at > len("step") {
				steps = append(steps, r.ExecID[:at])
			}
		}
	}
	known, err := c.cfg.Store.JailsOfNode(ctx, db.JailsOfNodeParams{OrgID: orgID, NodeID: nodeID, Jails: orEmpty(jails)})
	if err != nil {
		return nil, fmt.Errorf("look for the jails of node %s: %w", nodeID, err)
	}
	ran, err := c.cfg.Store.StepsOfExecs(ctx, db.StepsOfExecsParams{OrgID: orgID, NodeID: nodeID, Steps: orEmpty(steps), Execs: orEmpty(execs)})
	if err != nil {
		return nil, fmt.Errorf("look for the commands of node %s: %w", nodeID, err)
	}
	out := map[string]sender{}
	for _, jail := range known {
		s := sender{steps: map[string]db.StepsOfExecsRow{}}
		for _, step := range ran {
			if step.JailID == jail {
				s.steps[step.ExecID] = step
			}
		}
		tasks, err := c.cfg.Store.TasksInJail(ctx, db.TasksInJailParams{OrgID: orgID, JailID: jail})
		if err != nil {
			return nil, fmt.Errorf("look for tasks in jail %s: %w", jail, err)
		}
		if len(tasks) == 1 {
			s.task = &tasks[0].ID
		}
		out[jail] = s
	}
	return out, nil
}

// usage is what an event says of the requests of one report with one credential.
type usage struct {
	task, credential   string
	requests, problems int
	hosts              []string
	last               db.RecordCredentialRequestParams
	steps              []string
}

func (u *usage) add(r db.RecordCredentialRequestParams) {
	u.requests++
	if r.Problem != "" {
		u.problems++
	}
	if !slices.Contains(u.hosts, r.Host) && len(u.hosts) < maxHosts {
		u.hosts = append(u.hosts, r.Host)
	}
	if r.StepID != nil && !slices.Contains(u.steps, *r.StepID) && len(u.steps) < maxHosts {
		u.steps = append(u.steps, *r.StepID)
	}
	u.last = r
}

func (u *usage) payload() map[string]any {
	return map[string]any{
		"credential": u.credential, "requests": u.requests, "problems": u.problems, "hosts": u.hosts, "step_ids": orEmpty(u.steps),
		"method": u.last.Method, "host": u.last.Host, "path": u.last.Path, "status": u.last.Status, "problem": u.last.Problem,
	}
}

// Requests returns a page of the requests with credentials that somebody sees, newest first:
// those of one credential or of one task, or all.
func (c *Credentials) Requests(ctx context.Context, v task.Viewer, name, taskID, page string, size int32) ([]*deckhandv1.CredentialRequest, string, error) {
	params := db.ListCredentialRequestsParams{
		OrgID: v.OrgID, Credential: name, TaskID: taskID, SeesAll: v.All, Viewer: v.Name, MaxRows: size + 1,
	}
	c.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListCredentialRequests(ctx, all)
		return err
	})
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		params.BeforeAt, params.BeforeID = &at, id
	}
	rows, err := c.cfg.Store.ListCredentialRequests(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list requests with credentials: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.CredentialRequest) string { return store.PageToken(last.At, last.ID) })
	out := make([]*deckhandv1.CredentialRequest, 0, len(rows))
	for _, r := range rows {
		m := &deckhandv1.CredentialRequest{
			Id: r.ID, Credential: r.Credential, NodeId: r.NodeID, Method: r.Method, Host: r.Host, Path: r.Path, Status: r.Status,
			SentBytes: r.SentBytes, ReceivedBytes: r.ReceivedBytes, At: timestamppb.New(r.At), Seconds: r.Duration.Seconds(), Problem: r.Problem,
		}
		if r.TaskID != nil {
			m.TaskId = *r.TaskID
		}
		if r.StepID != nil {
			m.StepId = *r.StepID
		}
		out = append(out, m)
	}
	return out, next, nil
}

// pruneBatch is how many records Prune deletes at once.
const pruneBatch = 5000

// Prune deletes the records that are stored for longer than keep; 0 keeps all.
func (c *Credentials) Prune(ctx context.Context, keep time.Duration) error {
	for keep > 0 {
		n, err := c.cfg.Store.PruneCredentialRequests(ctx, db.PruneCredentialRequestsParams{Keep: keep, MaxRows: pruneBatch})
		if err != nil {
			return fmt.Errorf("delete old records of requests with credentials: %w", err)
		}
		if n < pruneBatch {
			return nil
		}
	}
	return nil
}
