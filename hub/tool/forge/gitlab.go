package forge

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// gitLab speaks version 4 of the REST API of GitLab
// (https://docs.gitlab.com/api/merge_requests/, https://docs.gitlab.com/api/notes/).
type gitLab struct{ *Client }

func gitLabProject(name string) string { return "/api/v4/projects/" + url.PathEscape(name) }

// gitLabItem is what GitLab returns of a merge request or of a note.
type gitLabItem struct {
	ID          int64
	IID         int64
	WebURL      string `json:"web_url"`
	Description string
	Body        string
	State       string
}

func (g gitLab) send(ctx context.Context, method, path string, body, into any) error {
	return g.Client.send(ctx, method, gitLabProject(g.repository)+path, http.Header{"Accept": {"application/json"}}, body, into)
}

func (g gitLab) with(ctx context.Context, p PullRequest, openOnly bool) ([]item, error) {
	query := url.Values{
		"state": {"all"}, "source_branch": {p.Head}, "target_branch": {p.Base}, "order_by": {"created_at"}, "sort": {"desc"}, "per_page": {strconv.Itoa(perPage)},
	}
	if openOnly {
		query.Set("state", "opened")
	}
	var found []gitLabItem
	err := g.send(ctx, http.MethodGet, "/merge_requests?"+query.Encode(), nil, &found)
	out := make([]item, 0, len(found))
	for _, one := range found {
		out = append(out, one.request())
	}
	return out, err
}

func (i gitLabItem) request() item {
	return item{number: i.IID, url: i.WebURL, body: i.Description, state: i.State}
}

func (g gitLab) open(ctx context.Context, p PullRequest) (item, error) {
	title := p.Title
	if p.Draft {
		title = "Draft: " + title
	}
	var made gitLabItem
	err := g.send(ctx, http.MethodPost, "/merge_requests", map[string]any{
		"source_branch": p.Head, "target_branch": p.Base, "title": title, "description": p.Body,
	}, &made)
	if err == nil && made.IID <= 0 {
		err = unreadable("no number")
	}
	return made.request(), err
}

func (gitLab) exists(r *refused) bool { return r.status == http.StatusConflict }

func (g gitLab) check(context.Context, int64) error { return nil } // its notes are of merge requests only

func (g gitLab) comments(ctx context.Context, number int64, since time.Time, page int) ([]item, error) {
	query := url.Values{"order_by": {"created_at"}, "sort": {"desc"}, "per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}
	var found []struct {
		gitLabItem

		CreatedAt time.Time `json:"created_at"`
	}
	err := g.send(ctx, http.MethodGet, "/merge_requests/"+strconv.FormatInt(number, 10)+"/notes?"+query.Encode(), nil, &found)
	var out []item
	for _, one := range found {
		if !one.CreatedAt.IsZero() && one.CreatedAt.Before(since) {
			break // so are all that follow
		}
		out = append(out, item{number: one.ID, body: one.Body, url: g.noteURL(number, one.ID)})
	}
	return out, err
}

func (g gitLab) comment(ctx context.Context, number int64, body string) (item, error) {
	var made gitLabItem
	err := g.send(ctx, http.MethodPost, "/merge_requests/"+strconv.FormatInt(number, 10)+"/notes", map[string]any{"body": body}, &made)
	if err == nil && made.ID <= 0 {
		err = unreadable("no id")
	}
	return item{number: made.ID, body: made.Body, url: g.noteURL(number, made.ID)}, err
}

// noteURL returns where a note is read, which the API does not say.
func (g gitLab) noteURL(number, id int64) string {
	return g.access.BaseURL + "/" + g.repository + "/-/merge_requests/" + strconv.FormatInt(number, 10) + "#note_" + strconv.FormatInt(id, 10)
}

func (gitLab) needs() string { return "the scope api and the role Developer in the project" }
