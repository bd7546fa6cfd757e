package forge

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// gitHub speaks the REST API of GitHub, version 2022-11-28
// (https://docs.github.com/en/rest/pulls/pulls, https://docs.github.com/en/rest/issues/comments).
type gitHub struct{ *Client }

func gitHubRepository(name string) string {
	owner, name, _ := strings.Cut(name, "/")
	return "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name)
}

// gitHubItem is what GitHub returns of a pull request or of a comment.
type gitHubItem struct {
	ID      int64
	Number  int64
	HTMLURL string `json:"html_url"`
	Body    string
	State   string
}

func (g gitHub) send(ctx context.Context, method, path string, body, into any) error {
	return g.Client.send(ctx, method, gitHubRepository(g.repository)+path, http.Header{
		"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"},
	}, body, into)
}

func (g gitHub) with(ctx context.Context, p PullRequest, openOnly bool) ([]item, error) {
	owner, _, _ := strings.Cut(g.repository, "/")
	query := url.Values{"state": {"all"}, "head": {owner + ":" + p.Head}, "base": {p.Base}, "sort": {"created"}, "direction": {"desc"}, "per_page": {strconv.Itoa(perPage)}}
	if openOnly {
		query.Set("state", "open")
	}
	var found []gitHubItem
	err := g.send(ctx, http.MethodGet, "/pulls?"+query.Encode(), nil, &found)
	return g.items(found, false), err
}

func (g gitHub) open(ctx context.Context, p PullRequest) (item, error) {
	var made gitHubItem
	err := g.send(ctx, http.MethodPost, "/pulls", map[string]any{"title": p.Title, "head": p.Head, "base": p.Base, "body": p.Body, "draft": p.Draft}, &made)
	if err == nil && made.Number <= 0 {
		err = unreadable("no number")
	}
	return g.items([]gitHubItem{made}, false)[0], err
}

func (g gitHub) exists(r *refused) bool {
	return r.status == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(r.said), "already exists")
}

func (g gitHub) check(ctx context.Context, number int64) error {
	// Issues have comments at the same place.
	return g.send(ctx, http.MethodGet, "/pulls/"+strconv.FormatInt(number, 10), nil, &gitHubItem{})
}

func (g gitHub) comments(ctx context.Context, number int64, since time.Time, page int) ([]item, error) {
	query := url.Values{"since": {since.UTC().Format(time.RFC3339)}, "per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
	var found []gitHubItem
	err := g.send(ctx, http.MethodGet, "/issues/"+strconv.FormatInt(number, 10)+"/comments?"+query.Encode(), nil, &found)
	return g.items(found, true), err
}

func (g gitHub) comment(ctx context.Context, number int64, body string) (item, error) {
	var made gitHubItem
	err := g.send(ctx, http.MethodPost, "/issues/"+strconv.FormatInt(number, 10)+"/comments", map[string]any{"body": body}, &made)
	if err == nil && made.ID <= 0 {
		err = unreadable("no id")
	}
	return g.items([]gitHubItem{made}, true)[0], err
}

func (gitHub) needs() string { return "the permission pull_requests: write" }

func (gitHub) items(all []gitHubItem, comments bool) []item {
	out := make([]item, 0, len(all))
	for _, one := range all {
		number := one.Number
		if comments {
			number = one.ID
		}
		out = append(out, item{number: number, url: one.HTMLURL, body: one.Body, state: one.State})
	}
	return out
}
