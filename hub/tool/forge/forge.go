// Package forge opens pull requests and writes comments on services that host Git
// repositories: those with the API of GitHub, and those with the API of GitLab, where a pull
// request is a merge request.
//
// Access says where such an API is and how a credential is inserted into requests to it. A
// Client sends them, one repository each: with the credential, without following redirects,
// with responses that are bounded and masked, and each recorded.
//
// What is created carries a marker, an HTML comment that readers do not see. Open and Comment
// look for it before they create anything, and again after a request that may or may not have
// arrived: with the same marker, they create one thing however often they are called.
//
// Errors are *fault.Error, or those of the context, of Access.Insert and of Access.Record: of kind
// Denied if the server refuses the credential, NotFound if it has no such repository or pull
// request, Invalid if it refuses the content, Exhausted with the time to wait if it limits
// requests, and Unavailable if it fails or cannot be reached. They contain what the server
// says, masked.
package forge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

// API says whose API a service has.
type API string

// The APIs.
const (
	GitHub API = "github"
	GitLab API = "gitlab"
)

// APIs are all of them, in order.
var APIs = []string{string(GitHub), string(GitLab)}

// Access is how a service is reached.
type Access struct {
	API API
	// BaseURL is that of GitHub's API or of GitLab itself, https, without a slash at the end.
	BaseURL string
	// Credential is the name of the credential.
	Credential string
	// Roots are certificates, in PEM, by which the host is verified; empty for the hub's own.
	Roots string
	// Private lets the host be in a private network.
	Private bool
	// Insert inserts the credential into a request, and returns what must be masked in the
	// response.
	Insert func(ctx context.Context, req *http.Request) ([]string, error)
	// Record stores a record of a request, whose id, jail, command and credential it sets.
	Record func(ctx context.Context, r egresslink.Record) error
	// Dial connects to host:port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client sends requests about one repository. It is used by one goroutine.
type Client struct {
	access     Access
	repository string
	http       *http.Client
	service    service
}

// service is what the two APIs differ in. Lists have the newest first where that can be asked
// for.
type service interface {
	// with returns the pull requests of a branch.
	with(ctx context.Context, p PullRequest, openOnly bool) ([]item, error)
	open(ctx context.Context, p PullRequest) (item, error)
	// exists reports whether open was refused since there is a pull request of the branch.
	exists(r *refused) bool
	// check returns an error if there is no pull request with a number.
	check(ctx context.Context, number int64) error
	// comments returns a page of the comments that were written since a time.
	comments(ctx context.Context, number int64, since time.Time, page int) ([]item, error)
	comment(ctx context.Context, number int64, body string) (item, error)
	// needs says which permission writing needs.
	needs() string
}

// item is a pull request or a comment.
type item struct {
	number           int64
	url, body, state string
}

const (
	// perPage is how many things are listed at once, and maxPages how many pages are read
	// to find a comment.
	perPage  = 100
	maxPages = 20
	// skew is how far the clocks of the hub and of a service may differ.
	skew = time.Hour
	// maxURL bounds a URL that a service returns, in bytes.
	maxURL = 2 << 10
)

// New creates a Client for a repository, whose name CheckRepository has checked.
func New(a Access, repository string) (*Client, error) {
	if err := CheckRepository(a.API, repository); err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	c := &Client{access: a, repository: repository, http: client}
	if a.API == GitLab {
		c.service = gitLab{c}
	} else {
		c.service = gitHub{c}
	}
	return c, nil
}

var segment = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// maxDepth is how deep GitLab's groups are nested, with the project.
const maxDepth = 22

// CheckRepository says what is wrong with the name of a repository: OWNER/NAME, with GitLab
// also below groups of groups.
func CheckRepository(api API, name string) error {
	parts := strings.Split(name, "/")
	most := maxDepth
	if api == GitHub {
		most = 2
	}
	if len(parts) < 2 || len(parts) > most || slices.ContainsFunc(parts, func(p string) bool { return !segment.MatchString(p) || p == "." || p == ".." }) {
		return fault.New(fault.Invalid, "repository is %.200q, which is not the name of one", name).WithCode(fault.InvalidParameters).
			WithFix("write OWNER/NAME, such as acme/web")
	}
	return nil
}

// CheckBranch says what is wrong with the name of a branch; field names the argument.
func CheckBranch(field, name string) error {
	if err := gitpush.CheckRef("refs/heads/" + name); err != nil || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "refs/") {
		return fault.New(fault.Invalid, "%s is %.200q, which is not the name of a branch", field, name).WithCode(fault.InvalidParameters).
			WithFix("write it without refs/heads/, such as deckhand/fix-login")
	}
	return nil
}

// URLs returns the URLs that a client uses for a repository: those that a credential must be
// for, with POST and with GET.
func URLs(api API, baseURL, repository string) []string {
	if api == GitLab {
		return []string{baseURL + gitLabProject(repository) + "/merge_requests"}
	}
	return []string{baseURL + gitHubRepository(repository) + "/pulls"}
}

// PullRequest is one to open.
type PullRequest struct {
	// Head is the branch with the changes, and Base the one that is to get them.
	Head, Base  string
	Title, Body string
	Draft       bool
	// Marker identifies it: see Marker.
	Marker string
}

// Written is what was opened or written.
type Written struct {
	Number int64
	// URL is empty if the service returned none.
	URL string
	// State is open, closed or merged as the service calls it; of pull requests.
	State string
	// Existed reports that nothing was created: there was one of the branch already.
	Existed bool
}

// Marker returns the marker for an id of letters, digits and _.
func Marker(id string) string { return "<!-- deckhand:" + id + " -->" }

// attempts is how often something is created whose request may not have arrived.
const attempts = 2

// Open opens a pull request. If an earlier call with the marker has opened it, that one is
// returned; and if there is an open one of the same branches that somebody else opened, that
// one, with Existed.
func (c *Client) Open(ctx context.Context, p PullRequest) (Written, error) {
	text := p
	text.Body = marked(p.Body, p.Marker)
	found := func(ctx context.Context) (*item, error) {
		all, err := c.service.with(ctx, p, false)
		if err != nil {
			return nil, err
		}
		return having(all, p.Marker), nil
	}
	made, err := c.once(ctx, found, func(ctx context.Context) (item, error) { return c.service.open(ctx, text) })
	var no *refused
	if errors.As(err, &no) && c.service.exists(no) {
		all, lerr := c.service.with(ctx, p, true)
		if lerr != nil {
			return Written{}, c.explain(lerr, "look for the pull request of "+p.Head)
		}
		if len(all) > 0 {
			w := c.written(all[0])
			w.Existed = true
			return w, nil
		}
	}
	if err != nil {
		return Written{}, c.explain(err, "open a pull request")
	}
	return c.written(made), nil
}

// Comment writes a comment on a pull request. If an earlier call with the marker, not before
// since, has written it, that one is returned.
func (c *Client) Comment(ctx context.Context, number int64, body, marker string, since time.Time) (Written, error) {
	if err := c.service.check(ctx, number); err != nil {
		return Written{}, c.explain(err, fmt.Sprintf("read pull request %d", number))
	}
	found := func(ctx context.Context) (*item, error) {
		for page := 1; page <= maxPages; page++ {
			all, err := c.service.comments(ctx, number, since.Add(-skew), page)
			if err != nil {
				return nil, err
			}
			if one := having(all, marker); one != nil || len(all) < perPage {
				return one, nil
			}
		}
		return nil, nil
	}
	made, err := c.once(ctx, found, func(ctx context.Context) (item, error) { return c.service.comment(ctx, number, marked(body, marker)) })
	if err != nil {
		return Written{}, c.explain(err, fmt.Sprintf("comment on pull request %d", number))
	}
	return c.written(made), nil
}

// once creates something unless it is found. After a request that may have arrived, it looks
// again.
func (c *Client) once(ctx context.Context, find func(context.Context) (*item, error), create func(context.Context) (item, error)) (item, error) {
	for n := 1; ; n++ {
		one, err := find(ctx)
		if err != nil {
			return item{}, err
		}
		if one != nil {
			return *one, nil
		}
		made, err := create(ctx)
		if err == nil || !mayHaveArrived(err) || n == attempts || ctx.Err() != nil {
			return made, err
		}
	}
}

// mayHaveArrived reports whether the server may have done what it was asked for, although
// there is no response that says so.
func mayHaveArrived(err error) bool {
	var no *refused
	if errors.As(err, &no) {
		return no.status >= http.StatusInternalServerError
	}
	var lost *lostResponse
	return errors.As(err, &lost)
}

func marked(body, marker string) string {
	if body == "" {
		return marker
	}
	return strings.TrimRight(body, "\n") + "\n\n" + marker
}

func having(all []item, marker string) *item {
	at := slices.IndexFunc(all, func(one item) bool { return strings.Contains(one.body, marker) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// written converts what a service returned.
func (c *Client) written(one item) Written {
	w := Written{Number: one.number, State: oneWord(one.state)}
	if u, err := url.Parse(one.url); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.User == nil && len(one.url) <= maxURL &&
		!strings.ContainsFunc(one.url, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' || r == '"' }) {
		w.URL = one.url
	}
	return w
}

func oneWord(s string) string {
	if len(s) > 20 || strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		return ""
	}
	return s
}
