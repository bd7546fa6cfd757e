package diagnose

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// dialTimeout bounds a connection to another hub.
const dialTimeout = 3 * time.Second

// reach opens a connection and closes it.
func reach(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("no connection to %s", address)
	}
	return conn.Close()
}

// pageSize is how many objects a check reads at a time.
const pageSize = 200

func (d *Doctor) claims(ctx context.Context, orgID string) ([]Finding, error) {
	row, err := d.cfg.Store.NewestClaim(ctx, orgID)
	if err != nil {
		return nil, err
	}
	f := Finding{"claims", OK, "no task was claimed in the last week", ""}
	if row.ClaimedAt.Unix() > 0 {
		f.Evidence = "a worker claimed a task " + time.Since(row.ClaimedAt).Round(time.Second).String() + " ago"
	}
	if wait := time.Duration(row.WaitsSeconds) * time.Second; wait > time.Minute {
		f.State, f.Evidence = Fail, f.Evidence+fmt.Sprintf("; an admitted task has waited for a worker for %s", wait)
		f.Fix = "start a worker of its pool, and see the log of those that run: deckhand workers list"
	}
	return []Finding{f}, nil
}

func (d *Doctor) restore(ctx context.Context, orgID string) ([]Finding, error) {
	row, err := d.cfg.Store.RestoreStatus(ctx, orgID)
	if err != nil || row.Tasks == 0 && row.Nodes == "" {
		return nil, err
	}
	f := Finding{"restore", Warn, fmt.Sprintf("%d tasks wait since the hub was restored to an earlier state", row.Tasks), "look at each that had not ended (deckhand task list), and resume or cancel it, also those that wait for a person"}
	if row.Nodes != "" {
		f.Evidence += "; these nodes have not said what ran since: " + row.Nodes
		f.Fix = "start deckhand-node there, or revoke a node that is gone: deckhand node revoke"
	}
	return []Finding{f}, nil
}

func (d *Doctor) triggers(ctx context.Context, orgID string) (out []Finding, err error) {
	rows, err := d.cfg.Store.FailingTriggers(ctx, orgID)
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		name := "trigger " + t.Name
		if t.State == "tripped" {
			out = append(out, Finding{name, Warn, "it stopped itself: " + t.Reason, "mend the cause, then: deckhand trigger enable " + t.Name})
			continue
		}
		out = append(out, Finding{name, Warn, fmt.Sprintf("%d of its last %d deliveries failed: %s", t.Failed, t.Total, t.Why), "deckhand trigger deliveries " + t.Name + " --state failed, and deckhand trigger test"})
	}
	if len(out) == 0 {
		out = []Finding{{"triggers", OK, "no delivery failed in the last day", ""}}
	}
	return out, nil
}

func (d *Doctor) tokens(ctx context.Context, orgID string) (out []Finding, err error) {
	rows, err := d.cfg.Store.ExpiringTokens(ctx, db.ExpiringTokensParams{OrgID: orgID, Within: soon})
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		out = append(out, Finding{"token " + t.Name, Warn, "it expires at " + t.ExpiresAt.UTC().Format(time.RFC3339), "make a new one: deckhand token create"})
	}
	if len(out) == 0 {
		out = []Finding{{"tokens", OK, "none expires within 14 days", ""}}
	}
	return out, nil
}

// expiring finds credentials that nothing renews and that end soon, or have ended.
func (d *Doctor) expiring(ctx context.Context, orgID string) (out []Finding, err error) {
	rows, err := d.cfg.Store.ExpiringCredentials(ctx, db.ExpiringCredentialsParams{OrgID: orgID, Within: soon})
	if err != nil {
		return nil, err
	}
	for _, c := range rows {
		f := Finding{c.Kind + " " + c.Name, Warn, "it expires at " + c.ExpiresAt.UTC().Format(time.RFC3339), "give it a new value: deckhand credential rotate " + c.Name}
		if c.Kind == "provider" {
			f.Fix = "give it a new key: deckhand provider connect " + c.Name
		}
		if time.Now().After(c.ExpiresAt) {
			f.State, f.Evidence = Fail, "it expired at "+c.ExpiresAt.UTC().Format(time.RFC3339)
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		out = []Finding{{"credentials", OK, "none expires within 14 days", ""}}
	}
	return out, nil
}

func (d *Doctor) quotas(ctx context.Context, orgID string) ([]Finding, error) {
	usage, err := d.cfg.Plans.Usage(ctx, d.cfg.Store.Queries, orgID, false)
	if err != nil {
		return nil, err
	}
	if why := usage.WaitReason(); why != "" {
		return []Finding{{"quotas", Fail, why, "deckhand quota show; an operator raises it with deckhand quota set"}}, nil
	}
	return []Finding{{"quotas", OK, "runs are left in this period", ""}}, nil
}

func (d *Doctor) providers(ctx context.Context, orgID string) (out []Finding, err error) {
	rows, _, err := d.cfg.Credentials.List(ctx, orgID, "", pageSize)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	out = make([]Finding, len(rows))
	for i, row := range rows {
		wg.Go(func() {
			name := row.Credential.Provider
			begun := time.Now()
			out[i] = Finding{"call of " + name, OK, "", ""}
			if err := d.cfg.Credentials.TestCall(ctx, orgID, name); err != nil {
				out[i].State, out[i].Evidence, out[i].Fix = Warn, shown(err), "deckhand provider connect "+name
				if f := fault.As(err); f != nil && f.Fix != "" {
					out[i].Evidence, out[i].Fix = f.Message, f.Fix
				}
				return
			}
			out[i].Evidence = "answered in " + time.Since(begun).Round(time.Millisecond).String()
		})
	}
	wg.Wait()
	return out, nil
}

// nodes asks every node that is connected to check itself.
func (d *Doctor) nodes(ctx context.Context, orgID string) ([]Finding, error) {
	var checks []check
	for token := ""; ; {
		page, next, err := d.cfg.Nodes.List(ctx, orgID, token, pageSize)
		if err != nil {
			return nil, err
		}
		for _, n := range page {
			if n.Node.RevokedAt != nil || !n.Connected {
				continue // deckhand doctor lists them by itself
			}
			if n.Node.Capability < nodelink.Ledger {
				checks = append(checks, check{name: n.Node.Name, run: func(context.Context) ([]Finding, error) {
					return []Finding{{"node " + n.Node.Name, Warn, "its deckhand-node is too old to check itself", "run deckhand-node doctor there, or upgrade it"}}, nil
				}})
				continue
			}
			checks = append(checks, check{name: "node " + n.Node.Name, run: func(ctx context.Context) ([]Finding, error) { return d.node(ctx, n.Node) }, limit: nodePatience})
		}
		if token = next; token == "" {
			break
		}
	}
	return each(ctx, checks), nil
}

func (d *Doctor) node(ctx context.Context, n db.Node) (out []Finding, err error) {
	link, err := d.cfg.Node(n.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	res, err := link.Node().Diagnose(ctx, &nodev1.DiagnoseRequest{})
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	for _, f := range res.GetFindings() {
		state := State(f.GetState())
		if state != OK && state != Warn {
			state = Fail
		}
		out = append(out, Finding{"node " + n.Name + ": " + f.GetCheck(), state, f.GetEvidence(), f.GetFix()})
	}
	return out, nil
}
