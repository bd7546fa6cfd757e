package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
)

// Registry is what is stored for a registry.
type Registry struct {
	OrgID, Host, User string
	Password          config.Secret
	Mirror            string
	By                event.Actor
}

// maxRegistries bounds how many an organisation has.
const maxRegistries = 100

// object is what a sealed password is bound to, also in store.SealedColumns.
func object(orgID, host string) string { return "password of registry " + host + " of " + orgID }

// Source names a registry's password among the sources of an organisation's secrets.
func Source(host string) string { return "registry " + host }

// SetRegistry stores what an organisation's nodes need for a registry.
func (i *Images) SetRegistry(ctx context.Context, r Registry) (db.Registry, error) {
	mirror, _, below := strings.Cut(r.Mirror, "/")
	switch {
	case !imageref.IsRegistry(r.Host):
		return db.Registry{}, fault.New(fault.Invalid, "host %q is not the host of a registry", r.Host).WithFix("write it as in an image's name: ghcr.io, registry.example.com:5000, or docker.io for Docker Hub")
	case r.Mirror != "" && (!imageref.IsRegistry(mirror) || below && !imageref.IsRepository(r.Mirror)):
		return db.Registry{}, fault.New(fault.Invalid, "mirror %q is not a host with a path", r.Mirror).WithFix("write it without a scheme: mirror.example.com or mirror.example.com/dockerhub")
	case (r.User == "") != (r.Password == ""):
		return db.Registry{}, fault.New(fault.Invalid, "username and password belong together").WithFix("give both or neither; for a token, the registry's documentation names the user")
	case r.User == "" && r.Mirror == "":
		return db.Registry{}, fault.New(fault.Invalid, "there is nothing to store for %s", r.Host).WithFix("give a username and a password, or a mirror")
	case r.Password != "" && secretcheck.Weak(r.Password.Reveal()) != "":
		return db.Registry{}, fault.New(fault.Invalid, "password %s", secretcheck.Weak(r.Password.Reveal())).WithFix("use a token that the registry issues")
	}
	params := db.PutRegistryParams{OrgID: r.OrgID, Host: r.Host, Username: r.User, Mirror: r.Mirror, SetBy: r.By.ID}
	if r.Password != "" {
		var err error
		if params.Sealed, err = i.cfg.Vault.Seal([]byte(r.Password.Reveal()), object(r.OrgID, r.Host)); err != nil {
			return db.Registry{}, err
		}
	}
	var row db.Registry
	err := i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		if row, err = tx.PutRegistry(ctx, params); err != nil {
			return fmt.Errorf("store registry %s: %w", r.Host, err)
		}
		n, err := tx.CountRegistries(ctx, r.OrgID)
		if err != nil {
			return fmt.Errorf("count registries: %w", err)
		}
		if n > maxRegistries {
			return fault.New(fault.Exhausted, "the organisation has %d registries, which is as many as there can be", maxRegistries).WithFix("delete one: deckhand registry delete HOST")
		}
		tx.AfterCommit(func() {
			if r.Password != "" {
				i.cfg.Redact.Org(r.OrgID).Learn(Source(r.Host), r.Password.Reveal())
			}
		})
		return audit.Append(tx, audit.Entry{
			OrgID: r.OrgID, By: r.By, Action: "registry.set", ObjectKind: "registry", ObjectID: r.Host,
			After: map[string]any{"username": r.User, "mirror": r.Mirror, "password": r.Password != ""},
		})
	})
	return row, err
}

// ListRegistries returns a page of an organisation's registries by host.
func (i *Images) ListRegistries(ctx context.Context, orgID, page string, size int32) ([]db.Registry, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := i.cfg.Store.ListRegistries(ctx, db.ListRegistriesParams{OrgID: orgID, AfterHost: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list registries: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.Registry) string { return store.NameToken(last.Host, "") })
	return rows, next, nil
}

// DeleteRegistry deletes what is stored for a registry.
func (i *Images) DeleteRegistry(ctx context.Context, orgID, host string, by event.Actor) error {
	return i.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.DeleteRegistry(ctx, db.DeleteRegistryParams{OrgID: orgID, Host: host})
		if store.IsNotFound(err) {
			return fault.New(fault.NotFound, "nothing is stored for registry %q", host).WithFix("see: deckhand registry list")
		}
		if err != nil {
			return fmt.Errorf("delete registry %s: %w", host, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "registry.deleted", ObjectKind: "registry", ObjectID: host,
			Before: map[string]any{"username": row.Username, "mirror": row.Mirror},
		})
	})
}

// Values returns the password of a stored row.
func (i *Images) Values(row db.SealedWithinRow) ([]string, error) {
	password, err := i.cfg.Vault.Open(row.Sealed, object(row.OrgID, row.ID))
	return []string{string(password)}, err
}
