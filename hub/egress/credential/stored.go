package credential

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxCredentials bounds how many an organisation has.
const maxCredentials = 500

// endedTimeout bounds how long a change waits for the nodes to forget what they had.
const endedTimeout = 10 * time.Second

// Create stores a credential.
func (c *Credentials) Create(ctx context.Context, orgID string, in *deckhandv1.CreateCredentialRequest, by event.Actor) (*deckhandv1.Credential, error) {
	in = clone(in)
	if err := complete(in); err != nil {
		return nil, err
	}
	settings, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(in.GetSettings())
	if err != nil {
		return nil, fmt.Errorf("encode the settings of credential %s: %w", in.GetName(), err)
	}
	params := db.CreateEgressCredentialParams{
		OrgID: orgID, Name: in.GetName(), Kind: in.GetKind(), Hosts: in.GetHosts(), Ports: []int32{}, Methods: orEmpty(in.GetMethods()), Paths: orEmpty(in.GetPaths()),
		Private: in.GetPrivate(), Agents: orEmpty(in.GetAgents()), Settings: settings, Variable: in.GetVariable(), Roots: in.GetRoots(),
		Version: ident.New("crv"), ExpiresAt: timeOf(in.GetExpiresAt()), CreatedBy: by.ID,
	}
	for _, port := range in.GetPorts() {
		params.Ports = append(params.Ports, int32(port)) //nolint:gosec // at most 65535
	}
	if params.Sealed, err = c.seal(orgID, in.GetName(), in.GetValue()); err != nil {
		return nil, fmt.Errorf("seal credential %s: %w", in.GetName(), err)
	}
	var row db.EgressCredential
	err = c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		row, err = tx.CreateEgressCredential(ctx, params)
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is a credential %s already", in.GetName()).WithFix("choose another name, or replace its value: deckhand credential rotate %s", in.GetName())
		}
		if err != nil {
			return fmt.Errorf("store credential %s: %w", in.GetName(), err)
		}
		n, err := tx.CountEgressCredentials(ctx, orgID)
		if err != nil {
			return fmt.Errorf("count credentials: %w", err)
		}
		if n > maxCredentials {
			return fault.New(fault.Exhausted, "the organisation has %d credentials, which is as many as there can be", maxCredentials).WithFix("delete one: deckhand credential delete NAME")
		}
		tx.AfterCommit(func() { c.learn(orgID, row.Name, secrets(in.GetValue())...) })
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "credential.created", ObjectKind: "credential", ObjectID: row.Name, After: described(row),
		})
	})
	if err != nil {
		return nil, err
	}
	return message(row, time.Time{})
}

// described returns what the audit log has of a credential.
func described(row db.EgressCredential) map[string]any {
	return map[string]any{
		"kind": row.Kind, "hosts": row.Hosts, "ports": row.Ports, "methods": row.Methods, "paths": row.Paths, "private": row.Private,
		"agents": row.Agents, "settings": row.Settings, "variable": row.Variable, "version": row.Version,
	}
}

// learn has values masked for the organisation that has stored them.
func (c *Credentials) learn(orgID, name string, values ...string) {
	c.cfg.Redact.Org(orgID).Learn(Source(name), values...)
}

// List returns a page of an organisation's credentials by name.
func (c *Credentials) List(ctx context.Context, orgID, page string, size int32) ([]*deckhandv1.Credential, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := c.cfg.Store.ListEgressCredentials(ctx, db.ListEgressCredentialsParams{OrgID: orgID, AfterName: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list credentials: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.ListEgressCredentialsRow) string { return store.NameToken(last.EgressCredential.Name, "") })
	out := make([]*deckhandv1.Credential, 0, len(rows))
	for _, row := range rows {
		m, err := message(row.EgressCredential, row.UsedAt)
		if err != nil {
			return nil, "", err
		}
		out = append(out, m)
	}
	return out, next, nil
}

// Get returns one credential.
func (c *Credentials) Get(ctx context.Context, orgID, name string) (*deckhandv1.Credential, error) {
	rows, err := c.cfg.Store.ListEgressCredentials(ctx, db.ListEgressCredentialsParams{OrgID: orgID, Name: name, MaxRows: 1})
	switch {
	case err != nil:
		return nil, fmt.Errorf("load credential %s: %w", name, err)
	case len(rows) == 0:
		return nil, notFound(name)
	}
	return message(rows[0].EgressCredential, rows[0].UsedAt)
}

func notFound(name string) *fault.Error {
	return fault.New(fault.NotFound, "there is no credential %.63q", name).WithFix("see: deckhand credential list")
}

// Rotate replaces the value of a credential.
func (c *Credentials) Rotate(ctx context.Context, orgID string, in *deckhandv1.RotateCredentialRequest, by event.Actor) (*deckhandv1.Credential, error) {
	before, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: in.GetName()})
	if store.IsNotFound(err) {
		return nil, notFound(in.GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("load credential %s: %w", in.GetName(), err)
	}
	if err := checkValue(Kind(before.Kind), in.GetValue()); err != nil {
		return nil, err
	}
	if err := checkExpiry(in.GetExpiresAt().AsTime(), in.GetExpiresAt() != nil); err != nil {
		return nil, err
	}
	sealed, err := c.seal(orgID, before.Name, in.GetValue())
	if err != nil {
		return nil, fmt.Errorf("seal credential %s: %w", before.Name, err)
	}
	var row db.EgressCredential
	err = c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		row, err = tx.RotateEgressCredential(ctx, db.RotateEgressCredentialParams{
			OrgID: orgID, Name: before.Name, Kind: before.Kind, Sealed: sealed, Version: ident.New("crv"), ExpiresAt: timeOf(in.GetExpiresAt()), RotatedBy: by.ID,
		})
		if store.IsNotFound(err) {
			return notFound(before.Name) // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("rotate credential %s: %w", before.Name, err)
		}
		tx.AfterCommit(func() { c.learn(orgID, row.Name, secrets(in.GetValue())...) })
		if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Credential, row.Name, "it was rotated by "+by.ID); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "credential.rotated", ObjectKind: "credential", ObjectID: row.Name,
			Before: map[string]any{"version": before.Version}, After: map[string]any{"version": row.Version},
		})
	})
	if err != nil {
		return nil, err
	}
	c.ended(ctx, orgID, row.Name)
	return c.Get(ctx, orgID, row.Name)
}

// Delete deletes a credential.
func (c *Credentials) Delete(ctx context.Context, orgID, name string, by event.Actor) error {
	err := c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.DeleteEgressCredential(ctx, db.DeleteEgressCredentialParams{OrgID: orgID, Name: name})
		if store.IsNotFound(err) {
			return notFound(name)
		}
		if err != nil {
			return fmt.Errorf("delete credential %s: %w", name, err)
		}
		if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Credential, row.Name, "it was deleted by "+by.ID); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "credential.deleted", ObjectKind: "credential", ObjectID: row.Name, Before: described(row),
		})
	})
	if err != nil {
		return err
	}
	c.ended(ctx, orgID, name)
	return nil
}

// ended forgets the tokens of a credential, and has the nodes forget them. The change is
// committed: the caller's leaving does not interrupt it.
func (c *Credentials) ended(ctx context.Context, orgID, name string) {
	c.tokens.forget(orgID, name)
	if c.cfg.Ended == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endedTimeout)
	defer cancel()
	c.cfg.Ended(ctx, orgID, name)
}

// message converts a row to what is shown of it.
func message(row db.EgressCredential, usedAt time.Time) (*deckhandv1.Credential, error) {
	settings, err := settingsOf(row)
	if err != nil {
		return nil, fmt.Errorf("read the settings of credential %s: %w", row.Name, err)
	}
	out := &deckhandv1.Credential{
		Name: row.Name, Kind: row.Kind, Hosts: row.Hosts, Methods: row.Methods, Paths: row.Paths, Private: row.Private, Agents: row.Agents,
		Settings: settings, Variable: row.Variable, Roots: row.Roots, Version: row.Version, CreatedBy: row.CreatedBy, CreatedAt: timestamppb.New(row.CreatedAt),
		RotatedBy: row.RotatedBy, RotatedAt: timestamppb.New(row.RotatedAt), Held: Kind(row.Kind).Held(),
	}
	for _, port := range row.Ports {
		out.Ports = append(out.Ports, uint32(port)) //nolint:gosec // it was one before
	}
	if row.ExpiresAt != nil {
		out.ExpiresAt = timestamppb.New(*row.ExpiresAt)
	}
	if usedAt.Unix() > 0 {
		out.UsedAt = timestamppb.New(usedAt)
	}
	return out, nil
}

func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
