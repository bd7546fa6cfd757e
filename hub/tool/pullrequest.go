package tool

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	pullRequestTimeout = 3 * time.Minute
	// maxPullRequestPreview shows the text of a pull request whole, in bytes, unless it is long
	// and not in English. Its arguments are shown whole in any case.
	maxPullRequestPreview = 64 << 10

	repositorySchema = `"repository":{"type":"string","minLength":3,"maxLength":500,"pattern":"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$","description":"OWNER/NAME; with GitLab the whole path of the project"}`
	forgeAccess      = `"credential":{"type":"string","minLength":1,"maxLength":63,"description":"The credential to use; needed only if several are for this repository"}`
)

// pullRequestTools are made by the hub, with a credential that no command gets, on the way
// out of the task's jail.
func pullRequestTools() []*Tool {
	const (
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		node     = deckhandv1.ToolPlace_TOOL_PLACE_NODE
	)
	leaves := func(map[string]any) bool { return true }
	return []*Tool{
		{
			Name: toolname.PullRequestOpen,
			Description: "Open a pull request on GitHub, or a merge request on GitLab. Push the branch first. " +
				"If there is an open one of the same branches, it is returned and stays as it is. Returns its number and URL. " +
				`Example: {"repository": "acme/web", "head": "deckhand/fix-login", "base": "main", "title": "Fix the login", "body": "Fixes #12."}.`,
			Kind: KindCommunication, Expected: 5 * time.Second, Retryable: true,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "the pull request that others see and are notified of",
			Timeout: pullRequestTimeout, Leaves: leaves, previewBytes: maxPullRequestPreview,
			schema: `{"type":"object","additionalProperties":false,"required":["repository","head","base","title","body"],"properties":{` + repositorySchema + `,
				"head":{"type":"string","minLength":1,"maxLength":240,"description":"The branch with the changes, in the same repository"},
				"base":{"type":"string","minLength":1,"maxLength":240,"description":"The branch that is to get them, such as main"},
				"title":{"type":"string","minLength":1,"maxLength":240,"pattern":"^[^\\r\\n]*\\S[^\\r\\n]*$","description":"One line"},
				"body":{"type":"string","maxLength":32768,"description":"What it changes and why, in Markdown"},
				"draft":{"type":"boolean","description":"Open it as a draft"},` + forgeAccess + `}}`,
			run: runPullRequestOpen, preview: previewPullRequestOpen,
		},
		{
			Name: toolname.PullRequestComment,
			Description: "Write a comment on a pull request of GitHub, or a merge request of GitLab. Returns its URL. " +
				`Example: {"repository": "acme/web", "number": 17, "body": "The tests pass now."}.`,
			Kind: KindCommunication, Expected: 5 * time.Second, Retryable: true,
			Category: moderate, Place: node, Idempotent: true, Irreversible: "the comment that others see and are notified of",
			Timeout: pullRequestTimeout, Leaves: leaves, previewBytes: maxPullRequestPreview,
			schema: `{"type":"object","additionalProperties":false,"required":["repository","number","body"],"properties":{` + repositorySchema + `,
				"number":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The number of the pull request"},
				"body":{"type":"string","minLength":1,"maxLength":32768,"pattern":"\\S","description":"The comment, in Markdown"},` + forgeAccess + `}}`,
			run: runPullRequestComment, preview: previewPullRequestComment,
		},
	}
}

func runPullRequestOpen(ctx context.Context, c Call) (Result, error) {
	p := forge.PullRequest{
		Head: text(c.Arguments, "head"), Base: text(c.Arguments, "base"), Title: text(c.Arguments, "title"), Body: text(c.Arguments, "body"),
		Draft: flag(c.Arguments, "draft"), Marker: forge.Marker(c.StepID),
	}
	for field, name := range map[string]string{"head": p.Head, "base": p.Base} {
		if err := forge.CheckBranch(field, name); err != nil {
			return failed(err)
		}
	}
	if p.Head == p.Base {
		return failed(fault.New(fault.Invalid, "head and base are both %s", p.Head).WithCode(fault.InvalidParameters).WithFix("push your changes to a branch of their own, and name it in head"))
	}
	return onForge(ctx, c, func(ctx context.Context, client *forge.Client) (string, forge.Written, error) {
		w, err := client.Open(ctx, p)
		said := fmt.Sprintf("opened pull request %d of %s", w.Number, text(c.Arguments, "repository"))
		if w.Existed {
			said = fmt.Sprintf("nothing was opened: there is an open pull request from %s to %s, number %d", p.Head, p.Base, w.Number)
		}
		return said, w, err
	})
}

func runPullRequestComment(ctx context.Context, c Call) (Result, error) {
	number := number(c.Arguments, "number")
	return onForge(ctx, c, func(ctx context.Context, client *forge.Client) (string, forge.Written, error) {
		w, err := client.Comment(ctx, number, text(c.Arguments, "body"), forge.Marker(c.StepID), c.StartedAt)
		// The number of a comment is of no use to an agent.
		w.Number = number
		return fmt.Sprintf("commented on pull request %d of %s", number, text(c.Arguments, "repository")), w, err
	})
}

// onForge calls fn with a client for the repository of a call, and returns its result.
func onForge(ctx context.Context, c Call, fn func(context.Context, *forge.Client) (string, forge.Written, error)) (Result, error) {
	repository := text(c.Arguments, "repository")
	access, err := c.Forge(ctx, repository, text(c.Arguments, "credential"))
	if err != nil {
		return failed(err)
	}
	var sent, received atomic.Int64
	access.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		return connect(ctx, c, address, access.Private, &sent, &received)
	}
	client, err := forge.New(access, repository)
	if err != nil {
		return failed(err)
	}
	asking, cancel := context.WithTimeout(ctx, pullRequestTimeout)
	defer cancel()
	said, written, err := fn(asking, client)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if asking.Err() != nil {
		err = fault.New(fault.Deadline, "%s did not respond in time", access.BaseURL).WithCode(fault.ExecutionTimeout).WithFix("look on the server whether it was done, and try again later")
	}
	outcome := map[string]any{"repository": repository, "credential": access.Credential}
	if err != nil {
		result, err := failed(err)
		result.Outcome = outcome
		return result, err
	}
	outcome["number"], outcome["existed"] = written.Number, written.Existed
	if written.URL != "" {
		said += ": " + written.URL
		outcome["url"] = written.URL
	}
	if written.State != "" {
		outcome["state"] = written.State
	}
	return Result{Observation: said, Outcome: outcome}, nil
}

func previewPullRequestOpen(arguments map[string]any) string {
	var out strings.Builder
	what := "pull request"
	if flag(arguments, "draft") {
		what = "draft of a pull request"
	}
	fmt.Fprintf(&out, "%s in %s\n%s -> %s\n", what, text(arguments, "repository"), text(arguments, "head"), text(arguments, "base"))
	if name := text(arguments, "credential"); name != "" {
		fmt.Fprintf(&out, "with credential %s\n", name)
	}
	fmt.Fprintf(&out, "\n%s\n\n%s", text(arguments, "title"), text(arguments, "body"))
	return out.String()
}

func previewPullRequestComment(arguments map[string]any) string {
	return fmt.Sprintf("comment on pull request %d in %s\n\n%s", number(arguments, "number"), text(arguments, "repository"), text(arguments, "body"))
}
