package step

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// checkoutScript fills a workspace with a repository: $1 is its URL, $2 the branch, tag or
// commit, empty for the default branch, and $3 how many commits of history, 0 for all. It
// may run again: a workspace that has commits stays as it is, since they may be an agent's. The hook adds to each commit
// who asked for it.
const checkoutScript = `set -eu
url=$1 ref=$2 depth=
[ "$3" = 0 ] || depth=--depth=$3
[ -e .git ] || git init -q
if git rev-parse -q --verify HEAD >/dev/null; then echo "the workspace has a repository already: it stays as it is"; exit 0; fi
git remote add origin "$url" 2>/dev/null || git remote set-url origin "$url"
if [ -z "$ref" ]; then
  ref=$(git ls-remote --symref origin HEAD | sed -n 's,^ref: refs/heads/\([^[:space:]]*\)[[:space:]]*HEAD$,\1,p')
  [ -n "$ref" ] || { echo "the repository has no default branch: name one in workspace.git.ref" >&2; exit 1; }
fi
if git ls-remote --exit-code origin "refs/heads/$ref" >/dev/null; then
  git fetch --progress $depth origin "+refs/heads/$ref:refs/remotes/origin/$ref"
  git checkout -q -B "$ref" --track "origin/$ref"
elif git ls-remote --exit-code origin "refs/tags/$ref" >/dev/null; then
  git fetch --progress $depth origin "+refs/tags/$ref:refs/tags/$ref"
  git checkout -q --detach "refs/tags/$ref"
else
  git fetch --progress $depth origin "$ref"
  git checkout -q --detach FETCH_HEAD
fi
hook=.git/hooks/prepare-commit-msg
if [ ! -e "$hook" ]; then
  mkdir -p .git/hooks
  cat > "$hook" <<'EOF'
#!/bin/sh
# Adds who asked for the commit.
[ -n "${` + requestedBy + `:-}" ] || exit 0
exec git interpret-trailers --in-place --if-exists addIfDifferent --trailer "Requested-by: $` + requestedBy + `" "$1"
EOF
  chmod +x "$hook"
fi
git log -1 --format='checked out %H %s'
`

// requestedBy is the variable with the person whom a task runs for.
const requestedBy = "DECKHAND_REQUESTED_BY"

// checkOut fills a new workspace with the repository that the persona names, once.
func (s *Steps) checkOut(ctx context.Context, t db.Task, p *persona.Persona, link machine.Link, jail *nodev1.JailSpec) error {
	from := p.Workspace.Git
	if from == nil {
		return nil
	}
	override, err := task.OverrideOf(t)
	if err != nil {
		return err
	}
	row, err := s.cfg.Store.NodeByID(ctx, *t.NodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", *t.NodeID, err)
	}
	return s.cfg.Setups.Run(ctx, setup.Workspace{
		What: "the checkout of " + from.URL, Fix: "check workspace.git of the persona, and its credential with: deckhand credential test NAME",
		OrgID: t.OrgID, AgentID: t.AgentID, Node: row, Link: link, Jail: jail,
		Commands: []devcontainer.Command{{Argv: []string{
			"/bin/sh", "-c", checkoutScript, "checkout", from.URL, cmp.Or(override.GitRef, from.Ref), strconv.Itoa(from.Depth),
		}}},
	})
}

// gitIdentity returns the variables by which commits are the agent's, and name the person
// whom its task runs for.
func gitIdentity(t db.Task, p *persona.Persona) []string {
	name, email := p.Name, p.Name+"@agents.deckhand.invalid"
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
		requestedBy + "=" + oneLine(t.CreatedBy),
	}
}

// oneLine returns a text without line breaks, for a trailer.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
