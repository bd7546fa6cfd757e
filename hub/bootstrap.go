package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

const (
	defaultOrganisation = "default"
	adminUser           = organisation.DefaultAdmin
)

// bootstrap makes the first organisation, its administrator and the tokens of
// this data folder. What is there already stays.
func (h *Hub) bootstrap(ctx context.Context) error {
	org, err := h.store.CreateOrganisation(ctx, db.CreateOrganisationParams{ID: auth.Operators, Name: defaultOrganisation})
	if err != nil {
		return fmt.Errorf("make the default organisation: %w", err)
	}
	admin, err := h.store.CreateUser(ctx, db.CreateUserParams{ID: ident.New("user"), OrgID: org.ID, Name: adminUser, Role: "admin"})
	if err != nil {
		return fmt.Errorf("make the administrator: %w", err)
	}
	if err := h.tokenFile(ctx, org.ID, auth.User, admin.ID, datadir.AdminTokenFile); err != nil {
		return err
	}
	if err := h.tokenFile(ctx, org.ID, auth.Worker, "", datadir.WorkerTokenFile); err != nil {
		return err
	}
	path := filepath.Join(h.cfg.DataDir, datadir.URLFile)
	if err := wholefile.Write(path, []byte(h.URL()+"\n"), 0o600); err != nil {
		return err
	}
	// Users other than the hub's learn that it runs; calling it takes a token.
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // it is an address, not a secret
		return fmt.Errorf("let others read %s: %w", path, err)
	}
	return nil
}

// tokenFile sees to it that a file of the data folder holds a token that
// works; one that does not is revoked and replaced.
func (h *Hub) tokenFile(ctx context.Context, orgID string, kind auth.Kind, userID, file string) error {
	path := filepath.Join(h.cfg.DataDir, file)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if token := strings.TrimSpace(string(data)); token != "" {
		if id, err := h.tokens.Identify(ctx, "Bearer "+token); err == nil && id.Kind == kind && id.OrgID == orgID {
			h.cfg.Redact.Add(token)
			return nil
		}
	}
	name := "file " + path
	if host, err := os.Hostname(); err == nil {
		name += " on " + host
	}
	if err := h.tokens.Revoke(ctx, orgID, kind, name); err != nil {
		return fmt.Errorf("revoke the old token of %s: %w", path, err)
	}
	token, err := h.tokens.Create(ctx, orgID, kind, userID, name, 0)
	if err != nil {
		return err
	}
	h.cfg.Redact.Add(token)
	return wholefile.Write(path, []byte(token+"\n"), 0o600)
}

// joinTokenTTL is long enough for a node of the same process to start.
const joinTokenTTL = 10 * time.Minute

// LocalJoinToken returns a join token for a node of the same machine.
func (h *Hub) LocalJoinToken(ctx context.Context) (string, error) {
	org, err := h.store.CreateOrganisation(ctx, db.CreateOrganisationParams{ID: auth.Operators, Name: defaultOrganisation})
	if err != nil {
		return "", fmt.Errorf("find the default organisation: %w", err)
	}
	token, _, err := h.nodes.CreateJoinToken(ctx, org.ID, node.User{Name: "hub"}, h.ca.Fingerprint(), joinTokenTTL, nil)
	if err != nil {
		return "", err
	}
	return token.Reveal(), nil
}

// WorkerToken returns the token of this data folder's workers.
func (h *Hub) WorkerToken() (string, error) {
	data, err := os.ReadFile(filepath.Join(h.cfg.DataDir, datadir.WorkerTokenFile))
	if err != nil {
		return "", fmt.Errorf("read the worker token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
