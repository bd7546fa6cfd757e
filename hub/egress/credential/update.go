package credential

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Update replaces what a credential is for, and its value if there is one in the request. The
// value is needed if the credential is to be sent anywhere that it was not for: who may change
// a credential does not get to read it by sending it to a server of his own.
func (c *Credentials) Update(ctx context.Context, orgID string, in *deckhandv1.UpdateCredentialRequest, by event.Actor) (*deckhandv1.Credential, error) {
	before, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: in.GetName()})
	if store.IsNotFound(err) {
		return nil, notFound(in.GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("load credential %s: %w", in.GetName(), err)
	}
	if in.GetVersion() != "" && in.GetVersion() != before.Version {
		return nil, changedSince(before.Name)
	}
	params, value, err := c.updated(before, in, by)
	if err != nil {
		return nil, err
	}
	var row db.EgressCredential
	err = c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		row, err = tx.UpdateEgressCredential(ctx, params)
		if store.IsNotFound(err) {
			return changedSince(before.Name) // or deleted
		}
		if err != nil {
			return fmt.Errorf("update credential %s: %w", before.Name, err)
		}
		if params.Rotated || before.ExpiresAt != nil && (row.ExpiresAt == nil || row.ExpiresAt.After(*before.ExpiresAt)) {
			if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Credential, row.Name, "it was updated by "+by.ID); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { c.learn(orgID, row.Name, secrets(value)...) })
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "credential.updated", ObjectKind: "credential", ObjectID: row.Name, Before: described(before), After: described(row),
		})
	})
	if err != nil {
		return nil, err
	}
	c.ended(ctx, orgID, row.Name)
	return c.Get(ctx, orgID, row.Name)
}

func changedSince(name string) error {
	return fault.New(fault.Precondition, "credential %s has changed since it was read", name).WithObject(name).
		WithFix("read it again (deckhand credential show %s), and change what is there now", name)
}

// updated returns a credential as a request changes it, and its value.
func (c *Credentials) updated(before db.EgressCredential, in *deckhandv1.UpdateCredentialRequest, by event.Actor) (out db.UpdateEgressCredentialParams, value *deckhandv1.CredentialValue, err error) {
	old, err := c.open(before.OrgID, before.Name, before.Sealed)
	if err != nil {
		return out, nil, fmt.Errorf("open credential %s: %w", before.Name, err)
	}
	whole := clone(&deckhandv1.CreateCredentialRequest{
		Name: before.Name, Kind: before.Kind, Hosts: in.GetHosts(), Ports: in.GetPorts(), Methods: in.GetMethods(), Paths: in.GetPaths(), Private: in.GetPrivate(),
		Agents: in.GetAgents(), Settings: in.GetSettings(), Variable: in.GetVariable(), Roots: in.GetRoots(), Value: in.GetValue(), ExpiresAt: in.GetExpiresAt(),
	})
	if whole.Value == nil {
		whole.Value = old
	}
	if err := complete(whole); err != nil {
		return out, nil, err
	}
	if in.GetValue() == nil {
		if err := goesNowhereNew(before, whole); err != nil {
			return out, nil, err
		}
	}
	out = db.UpdateEgressCredentialParams{
		OrgID: before.OrgID, Name: before.Name, Before: before.Version, Version: ident.New("crv"), Hosts: whole.GetHosts(), Ports: []int32{},
		Methods: orEmpty(whole.GetMethods()), Paths: orEmpty(whole.GetPaths()), Private: whole.GetPrivate(), Agents: orEmpty(whole.GetAgents()),
		Variable: whole.GetVariable(), Roots: whole.GetRoots(), Sealed: before.Sealed, ExpiresAt: timeOf(whole.GetExpiresAt()), UpdatedBy: by.ID,
	}
	for _, port := range whole.GetPorts() {
		out.Ports = append(out.Ports, int32(port)) //nolint:gosec // at most 65535
	}
	if out.Settings, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(whole.GetSettings()); err != nil {
		return out, nil, fmt.Errorf("encode the settings of credential %s: %w", before.Name, err)
	}
	if in.GetValue() == nil {
		if in.GetExpiresAt() == nil {
			out.ExpiresAt = before.ExpiresAt
		}
		return out, old, nil
	}
	out.Rotated = true
	out.Sealed, err = c.seal(before.OrgID, before.Name, in.GetValue())
	return out, in.GetValue(), err
}

// goesNowhereNew refuses a change by which a value that is kept would be sent anywhere that it
// was not for.
func goesNowhereNew(before db.EgressCredential, after *deckhandv1.CreateCredentialRequest) error {
	settings, err := settingsOf(before)
	if err != nil {
		return fmt.Errorf("read the settings of credential %s: %w", before.Name, err)
	}
	needed := func(field, why string, args ...any) error {
		return fault.New(fault.Invalid, "value is empty, and %s: "+why, append([]any{field}, args...)...).WithObject(before.Name).
			WithFix("give the value again: it is not sent anywhere that it was not stored for")
	}
	ports := before.Ports
	if len(ports) == 0 {
		ports = []int32{usualPort}
	}
	newPorts := after.GetPorts()
	if len(newPorts) == 0 {
		newPorts = []uint32{usualPort}
	}
	for _, host := range after.GetHosts() {
		if !slices.Contains(before.Hosts, host) {
			return needed("hosts", "%s is new", host)
		}
	}
	for _, port := range newPorts {
		if !slices.Contains(ports, int32(port)) { //nolint:gosec // at most 65535
			return needed("ports", "%d is new", port)
		}
	}
	switch {
	case after.GetRoots() != before.Roots:
		return needed("roots", "other certificates would be trusted")
	case after.GetPrivate() && !before.Private:
		return needed("private", "it was for public networks only")
	case after.GetSettings().GetBaseUrl() != settings.GetBaseUrl():
		return needed("settings.base_url", "it is another one")
	case after.GetSettings().GetTokenUrl() != settings.GetTokenUrl():
		return needed("settings.token_url", "it is another one")
	case before.ExpiresAt != nil && !before.ExpiresAt.After(time.Now()) && after.GetExpiresAt() != nil:
		return needed("expires_at", "the value that is there has expired")
	}
	return nil
}
