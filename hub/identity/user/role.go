package user

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

const (
	// rememberRole is how long a role is taken for good that another hub may have
	// changed. This one's own changes count at once.
	rememberRole    = 2 * time.Second
	rememberedRoles = 4096
)

// Role returns the current role of a user, read with q if it is not cached: the highest
// of their own role and their teams', "" if they are disabled. For a name that is not a
// user, it returns unless.
func (u *Users) Role(ctx context.Context, q *db.Queries, orgID, name, unless string) (string, error) {
	key := orgID + "/" + name
	if role, ok := u.roles.Get(key); ok {
		return role, nil
	}
	role, err := q.RoleOfUser(ctx, db.RoleOfUserParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return unless, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the role of %s: %w", name, err)
	}
	u.roles.Add(key, role)
	return role, nil
}
