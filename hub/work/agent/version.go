package agent

import (
	"context"
	"fmt"

	"github.com/aymanbagabas/go-udiff"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

func levelOf(a db.Agent) visibility.Level { return visibility.Level(a.Visibility) }

// VersionChange is a stored version and what it changed.
type VersionChange struct {
	db.AgentVersion

	// Change is one line about what differs from the version before.
	Change string
}

// Versions returns a page of an agent's versions, the newest first, and the next page's
// token.
func (l Life) Versions(ctx context.Context, orgID, id, page string, size int32) ([]VersionChange, string, error) {
	below, err := store.ParseNumberToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := l.Agents.store.AgentVersions(ctx, db.AgentVersionsParams{OrgID: orgID, AgentID: id, Below: below, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list the versions of agent %s: %w", id, err)
	}
	shown, next := store.Page(rows, size, func(last db.AgentVersion) string { return store.NumberToken(last.Version) })
	out := make([]VersionChange, len(shown))
	for i, row := range shown {
		out[i] = VersionChange{row, "first version"}
		if i+1 < len(rows) {
			out[i].Change = changes(rows[i+1], row)
		}
	}
	return out, next, nil
}

// changes says in one line what a version changed.
func changes(before, after db.AgentVersion) string {
	out := persona.Changes(before.Markdown, after.Markdown)
	switch {
	case before.Script != after.Script && out != "":
		out += ", script"
	case before.Script != after.Script:
		out = "script"
	case out == "":
		out = "comments only"
	}
	return out
}

// diffContext is how many unchanged lines a diff has around a change.
const diffContext = 3

// Diff returns a unified diff of two versions' persona files, and of their scripts; empty
// if they are the same.
func (l Life) Diff(ctx context.Context, orgID, id string, from, to int32) (string, error) {
	a, err := l.Agents.Version(ctx, orgID, id, from)
	if err != nil {
		return "", err
	}
	b, err := l.Agents.Version(ctx, orgID, id, to)
	if err != nil {
		return "", err
	}
	row, err := l.Agents.Get(ctx, orgID, id)
	if err != nil {
		return "", err
	}
	files := []struct{ name, before, after string }{
		{row.Agent.Name + ".md", a.Markdown, b.Markdown}, {row.Agent.Name + ".script.yaml", a.Script, b.Script},
	}
	out := ""
	for _, f := range files {
		label := func(v int32) string { return fmt.Sprintf("%s (version %d)", f.name, v) }
		text, err := udiff.ToUnified(label(from), label(to), f.before, udiff.Strings(f.before, f.after), diffContext)
		if err != nil {
			return "", fmt.Errorf("compare versions %d and %d of agent %s: %w", from, to, id, err)
		}
		out += text
	}
	return out, nil
}

// Restored returns the file of an older version under the agent's present name, to be
// applied as a new version.
func (l Life) Restored(ctx context.Context, orgID, id string, version int32) (File, error) {
	row, err := l.Agents.Get(ctx, orgID, id)
	if err != nil {
		return File{}, err
	}
	v, err := l.Agents.Version(ctx, orgID, id, version)
	if err != nil {
		return File{}, err
	}
	f := File{Name: row.Agent.Name + ".md", Markdown: v.Markdown, Script: v.Script}
	p, err := l.Agents.Persona(v.Digest, v.Markdown)
	if err != nil || p.Name == row.Agent.Name {
		return f, err
	}
	f.Markdown, err = persona.Rename(v.Markdown, row.Agent.Name)
	return f, err
}
