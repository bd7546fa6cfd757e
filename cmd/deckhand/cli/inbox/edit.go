package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// edit opens the call in $EDITOR, has the hub judge what was made of it, and shows that
// judgement. It returns nil if nothing is to be sent.
func (r *reviewer) edit(ctx context.Context, item *deckhandv1.InboxItem) (*editedCall, error) {
	before, whole, err := editable(item)
	if err != nil {
		return nil, err
	}
	for text := before; ; {
		if text, err = r.inEditor(text, whole); err != nil {
			return nil, err
		}
		arguments, diff, err := edited(item, before, text, whole)
		if err != nil {
			return nil, err
		}
		if diff == "" {
			r.printf("Nothing was changed.\n")
			return nil, nil
		}
		res, err := r.client.Inbox.JudgeInboxItem(ctx, &deckhandv1.JudgeInboxItemRequest{ItemId: item.GetId(), ArgumentsJson: arguments})
		if err != nil {
			return nil, fault.FromConnect(err)
		}
		r.printf("%s%s", literal.Block(diff), judgement(res))
		word, err := r.ask("Approve the edited call? [y,n,e] ")
		if err != nil {
			return nil, err
		}
		switch word {
		case "y":
			return &editedCall{arguments: arguments, digest: res.GetJudgedDigest(), dangers: dangerKinds(res.GetDecision())}, nil
		case "e":
			continue
		}
		return nil, nil
	}
}

// editedCall is an edited call as the hub judged it.
type editedCall struct {
	// arguments are a JSON object.
	arguments string
	// digest identifies the judgement that was shown.
	digest string
	// dangers are the kinds of danger in it.
	dangers []string
}

// inEditor returns what a person makes of a text.
func (r *reviewer) inEditor(text string, json bool) (string, error) {
	pattern := "deckhand-*.sh"
	if json {
		pattern = "deckhand-*.json"
	}
	file, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", fmt.Errorf("create a file to edit: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write the file to edit: %w", err)
	}
	if err := r.run(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"), file.Name()); err != nil {
		return "", fmt.Errorf("the editor failed: %w", err)
	}
	after, err := env.ReadBounded(file.Name(), maxEdited)
	return string(after), err
}

// judgement says what the hub decides about an edited call, what is dangerous first.
func judgement(res *deckhandv1.JudgeInboxItemResponse) string {
	d := res.GetDecision()
	var out strings.Builder
	out.WriteString(dangerBlock(d))
	effect := map[string]string{"allow": "The policy allows the edited call", "ask": "The policy asks about the edited call", "deny": "The policy denies the edited call"}[d.GetEffect()]
	if effect == "" {
		effect = "No rule is about the edited call"
	}
	if d.GetWhy() != "" {
		effect += ": " + literal.Line(d.GetWhy())
	}
	fmt.Fprintf(&out, "%s.\n", strings.TrimSuffix(effect, "."))
	for _, block := range [][2]string{
		{"commands", commandLines(d)},
		{"not understood", strings.Join(literalLines(d.GetUnclear()), "\n")},
		{"would change", changeLines(res.GetChanges(), res.GetChangesUnknown())},
		{"cannot be undone", literal.Line(d.GetIrreversible())},
	} {
		if block[1] != "" {
			fmt.Fprintf(&out, "%s:\n%s\n", block[0], indented(block[1]))
		}
	}
	return out.String()
}

// changeLines says what the call of a file tool would do to the workspace, with the diffs.
func changeLines(changes []*deckhandv1.ProposedChange, unknown string) string {
	var out []string
	if unknown != "" {
		out = append(out, "it is not known: "+literal.Line(unknown))
	}
	for _, c := range changes {
		line := c.GetKind() + " " + literal.Line(c.GetPath())
		if c.GetTo() != "" {
			line += " to " + literal.Line(c.GetTo())
		}
		if c.GetAdded()+c.GetDeleted() > 0 {
			line += fmt.Sprintf(" (+%d -%d lines)", c.GetAdded(), c.GetDeleted())
		}
		if c.GetFiles() > 0 {
			more := ""
			if c.GetMore() {
				more = " or more"
			}
			line += fmt.Sprintf(" (%d files%s, %s)", c.GetFiles(), more, output.Size(c.GetSizeBytes()))
		}
		out = append(out, line)
		if c.GetProblem() != "" {
			out = append(out, "this will fail: "+literal.Line(c.GetProblem()))
		}
		if c.GetUnified() != "" {
			out = append(out, literal.Block(strings.TrimRight(c.GetUnified(), "\n")))
		} else if c.GetOmitted() != "" {
			out = append(out, "no diff: "+literal.Line(c.GetOmitted()))
		}
		for _, e := range c.GetEntries() {
			out = append(out, "  "+literal.Line(e.GetPath()))
		}
		if g := c.GetGit(); g != nil {
			out = append(out, fmt.Sprintf("Git (%s): %d committed, %d changed since, %d untracked, %d ignored",
				literal.Line(g.GetBranch()), g.GetUnchanged(), g.GetChanged(), g.GetUntracked(), g.GetIgnored()))
		}
	}
	return strings.Join(out, "\n")
}
