package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/egress/mint"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxShown bounds what a test shows of a response, in bytes.
const maxShown = 4 << 10

// Test sends one request with a credential from the hub, with GET: to a URL that it is for, or
// if that is empty to where a response shows best that the value is valid. What the server says
// is in the result; an error is returned if no request can be made.
func (c *Credentials) Test(ctx context.Context, orgID, name, to string, by event.Actor) (*deckhandv1.TestCredentialResponse, error) {
	row, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return nil, notFound(name)
	}
	if err != nil {
		return nil, fmt.Errorf("load credential %s: %w", name, err)
	}
	settings, err := settingsOf(row)
	if err != nil {
		return nil, fmt.Errorf("read the settings of credential %s: %w", name, err)
	}
	out, err := c.test(ctx, row, settings, to)
	if err != nil {
		return nil, err
	}
	mask := c.cfg.Redact.Org(orgID)
	out.Body, out.Problem, out.Fix, out.Url = mask.String(out.GetBody()), mask.String(out.GetProblem()), mask.String(out.GetFix()), mask.String(out.GetUrl())
	return out, c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "credential.tested", ObjectKind: "credential", ObjectID: name,
			After: map[string]any{"url": out.GetUrl(), "status": out.GetStatus(), "ok": out.GetOk()},
		})
	})
}

func (c *Credentials) test(ctx context.Context, row db.EgressCredential, s *deckhandv1.CredentialSettings, to string) (*deckhandv1.TestCredentialResponse, error) {
	if Kind(row.Kind) == Password {
		return nil, typedOnly(row.Name)
	}
	if to == "" && !Kind(row.Kind).Held() {
		return c.testToken(ctx, row, s), nil
	}
	if to == "" {
		to = naturalURL(row, s)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil || req.URL.User != nil || req.URL.Fragment != "" {
		return nil, fault.New(fault.Invalid, "url is not a plain URL").WithFix("use https://host/path, without user and fragment")
	}
	if err := fits(row, req, true); err != nil {
		e := *fault.As(err)
		e.Kind = fault.Invalid
		return nil, e.WithFix("give a URL that it is for: deckhand credential test %s --url URL", row.Name)
	}
	out := &deckhandv1.TestCredentialResponse{Url: to}
	if Kind(row.Kind).Held() {
		_, err = c.insert(row, s, req)
	} else {
		err = c.insertToken(ctx, row, s, req)
	}
	if e := fault.As(err); e != nil {
		out.Problem, out.Fix = e.Message, e.Fix
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	client, closeIdle, err := c.client(row)
	if err != nil {
		return nil, err
	}
	defer closeIdle()
	req.Header.Set("User-Agent", "deckhand")
	res, err := client.Do(req)
	if err != nil {
		var of *url.Error // it repeats the URL, in which a secret may be
		if errors.As(err, &of) {
			err = of.Err
		}
		out.Problem, out.Fix = mint.Explain(err)
		out.Problem = req.URL.Host + " cannot be reached: " + out.GetProblem()
		return out, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxShown))
	if err != nil && len(body) == 0 {
		out.Problem = "the response ended early"
	}
	out.Status = int32(res.StatusCode) //nolint:gosec // three digits
	out.Body = strings.ToValidUTF8(string(body), "\uFFFD")
	out.Ok = res.StatusCode < http.StatusBadRequest
	out.Problem, out.Fix = judged(row.Name, res)
	return out, nil
}

// judged says what a response means for a credential; nothing for a success.
func judged(name string, res *http.Response) (problem, fix string) {
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return "the server refuses the credential (HTTP 401)", "store a valid value: deckhand credential rotate " + name
	case code == http.StatusForbidden:
		return "the server knows the credential and does not allow this request, or refuses it (HTTP 403)", "give it the rights that it needs on the server, or test another URL with --url"
	case code == http.StatusNotFound:
		return "there is nothing at this URL (HTTP 404)", "test another URL with --url"
	case code >= http.StatusInternalServerError:
		return fmt.Sprintf("the server failed (HTTP %d)", code), "try again later"
	case code >= http.StatusBadRequest:
		return fmt.Sprintf("the server refuses the request (HTTP %d)", code), "test another URL with --url"
	case code >= http.StatusMultipleChoices:
		return fmt.Sprintf("the server redirects (HTTP %d), which is not followed", code), "test the URL that it leads to, if the credential is for it"
	}
	return "", ""
}

// naturalURL returns what shows best whether a value that stays in the hub is valid.
func naturalURL(row db.EgressCredential, s *deckhandv1.CredentialSettings) string {
	if Kind(row.Kind) == GitLab {
		return baseURL(row, s) + "/api/v4/user"
	}
	host := row.Hosts[0]
	if len(row.Ports) > 0 && row.Ports[0] != usualPort {
		host = net.JoinHostPort(host, strconv.Itoa(int(row.Ports[0])))
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if _, service, err := signingScope(s, row.Hosts[0]); Kind(row.Kind) == AWS && err == nil && service == "sts" {
		return "https://" + host + "/?Action=GetCallerIdentity&Version=2011-06-15"
	}
	return "https://" + host + "/"
}

// testScope is what a token is issued for in a test: all that the credential allows.
func testScope(row db.EgressCredential, s *deckhandv1.CredentialSettings) (narrowed, error) {
	scope, err := narrow(row, s, persona.Credential{Name: row.Name})
	// With repositories of several owners, it is tested for those of the first.
	if err != nil && len(s.GetRepositories()) > 0 {
		want := persona.Credential{Name: row.Name}
		first, _, _ := strings.Cut(s.GetRepositories()[0], "/")
		for _, text := range s.GetRepositories() {
			if owner, _, _ := strings.Cut(text, "/"); strings.EqualFold(owner, first) {
				want.Repositories = append(want.Repositories, text)
			}
		}
		scope, err = narrow(row, s, want)
	}
	return scope, err
}

// testToken has a token issued, which is not kept.
func (c *Credentials) testToken(ctx context.Context, row db.EgressCredential, s *deckhandv1.CredentialSettings) *deckhandv1.TestCredentialResponse {
	out := &deckhandv1.TestCredentialResponse{Url: s.GetTokenUrl()}
	if Kind(row.Kind) == GitHubApp {
		out.Url = baseURL(row, s) + "/app/installations"
	}
	scope, err := testScope(row, s)
	if err == nil {
		var token mint.Token
		if token, err = c.mint(ctx, row, s, scope); err == nil {
			out.Ok, out.Status, out.Body = true, http.StatusOK, "a token was issued"
			if !token.ExpiresAt.IsZero() {
				out.Body += ", which expires at " + token.ExpiresAt.UTC().Format(time.RFC3339)
			}
			return out
		}
	}
	out.Problem, out.Fix = err.Error(), "try again later"
	if e := fault.As(err); e != nil {
		out.Problem, out.Fix = e.Message, e.Fix
	}
	return out
}

// insertToken inserts a token that is issued for a test.
func (c *Credentials) insertToken(ctx context.Context, row db.EgressCredential, s *deckhandv1.CredentialSettings, req *http.Request) error {
	scope, err := testScope(row, s)
	if err != nil {
		return err
	}
	token, err := c.mint(ctx, row, s, scope)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token.Value)
	if Kind(row.Kind) == GitHubApp && egresslink.GitPath(req.URL.Path) {
		req.Header.Set("Authorization", "Basic "+encodedBasic(gitHubUser, token.Value))
	}
	return nil
}
