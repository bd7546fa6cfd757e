package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Caller is a step whose tool sends requests of the hub's own for an agent.
type Caller struct {
	OrgID, NodeID, JailID, ExecID string
	// Persona is that of its task, with the task's overrides.
	Persona *persona.Persona
}

// Forge returns how the API of the service that has a repository is reached, without Dial: by
// the one credential of the caller's persona that is for that API's requests about the
// repository. name chooses among several; empty for none in particular. A token of a GitHub App
// is for that repository and for pull requests only.
//
// Each request is checked and recorded as one of a command is.
func (c *Credentials) Forge(ctx context.Context, by Caller, repository, name string) (forge.Access, error) {
	var fitting []use
	var why []string
	for _, want := range by.Persona.Credentials {
		if name != "" && want.Name != name {
			continue
		}
		u, err := c.use(ctx, by.OrgID, "", by.JailID, want.Name)
		if err == nil {
			err = u.reaches(repository)
		}
		e := fault.As(err)
		switch {
		case err == nil:
			fitting = append(fitting, u)
		case errors.Is(err, errNoForge):
		case e == nil:
			return forge.Access{}, err
		default:
			why = append(why, e.Message)
		}
	}
	switch len(fitting) {
	case 0:
		text := fmt.Sprintf("no credential of the persona is for pull requests of %.200q", repository)
		if name != "" {
			text = fmt.Sprintf("credential %.63q of the persona is not for pull requests of %.200q", name, repository)
		}
		if len(why) > 0 {
			text += ": " + strings.Join(why, "; ")
		}
		return forge.Access{}, fault.New(fault.Denied, "%s", text).WithCode(fault.CredentialRefused).
			WithFix("an administrator creates one (deckhand credential create NAME --kind github_app or gitlab, or bearer with --api), and the persona lists it")
	case 1:
		return c.access(by, fitting[0], repository), nil
	}
	var names []string
	for _, u := range fitting {
		names = append(names, u.row.Name)
	}
	return forge.Access{}, fault.New(fault.Invalid, "credentials %s are all for pull requests of %.200q", strings.Join(names, ", "), repository).WithCode(fault.InvalidParameters).
		WithFix("name the one to use in the argument credential")
}

// errNoForge says that a credential is not for a service that hosts repositories.
var errNoForge = errors.New("no API of a service that hosts repositories")

// forgeAPI returns the API that a credential is for, or "".
func forgeAPI(row db.EgressCredential, s *deckhandv1.CredentialSettings) forge.API {
	switch Kind(row.Kind) {
	case GitHubApp:
		return forge.GitHub
	case GitLab:
		return forge.GitLab
	case Bearer, Basic:
		return forge.API(s.GetApi())
	}
	return ""
}

// reaches returns why a credential is not for pull requests of a repository; nil if it is.
func (u use) reaches(repository string) error {
	api := forgeAPI(u.row, u.settings)
	if api == "" {
		return errNoForge
	}
	if err := forge.CheckRepository(api, repository); err != nil {
		return err
	}
	for _, to := range forge.URLs(api, baseURL(u.row, u.settings), repository) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			req, err := http.NewRequest(method, to, nil) //nolint:noctx // it is not sent
			if err != nil {
				return fmt.Errorf("make a request to %s: %w", to, err)
			}
			if err := fits(u.row, req, false); err != nil {
				return err
			}
		}
	}
	if Kind(u.row.Kind) == GitHubApp {
		_, err := u.pullRequests(repository)
		return err
	}
	return nil
}

// pullRequests returns what a token of a GitHub App is issued for: a repository, and what
// pull requests need there of what the persona has.
func (u use) pullRequests(repository string) (narrowed, error) {
	all, err := narrow(u.row, u.settings, u.want)
	if err != nil {
		return narrowed{}, err
	}
	const needed, level = "pull_requests", "write"
	if has := all.permissions[needed]; slices.Index(levels, has) < slices.Index(levels, level) {
		return narrowed{}, fault.New(fault.Denied, "credential %s lacks the permission %s: %s", u.row.Name, needed, level).WithCode(fault.CredentialRefused).WithObject(u.row.Name).
			WithFix("add it to credentials of the persona, and to the credential")
	}
	if len(u.want.Repositories) > 0 && !slices.ContainsFunc(u.want.Repositories, func(one string) bool { return strings.EqualFold(one, repository) }) {
		return narrowed{}, fault.New(fault.Denied, "the persona does not list repository %s for credential %s", repository, u.row.Name).WithCode(fault.CredentialRefused).WithObject(u.row.Name).
			WithFix("add it to credentials of the persona")
	}
	least := map[string]string{needed: level}
	if all.permissions["contents"] != "" {
		least["contents"] = levels[0] // to see the branches
	}
	return narrow(u.row, u.settings, persona.Credential{Name: u.row.Name, Repositories: []string{repository}, Permissions: least})
}

func (c *Credentials) access(by Caller, u use, repository string) forge.Access {
	name := u.row.Name
	return forge.Access{
		API: forgeAPI(u.row, u.settings), BaseURL: baseURL(u.row, u.settings), Credential: name, Roots: u.row.Roots, Private: u.row.Private,
		Insert: func(ctx context.Context, req *http.Request) ([]string, error) {
			// It may have been deleted meanwhile.
			u, err := c.use(ctx, by.OrgID, "", by.JailID, name)
			if err != nil {
				return nil, err
			}
			if err := u.permits(req); err != nil {
				return nil, err
			}
			if Kind(u.row.Kind).Held() {
				return c.insert(u.row, u.settings, req)
			}
			scope, err := u.pullRequests(repository)
			if err != nil {
				return nil, err
			}
			token, err := c.tokenOf(ctx, u, scope)
			if err != nil {
				return nil, err
			}
			req.Header.Set("Authorization", "Bearer "+token.Value)
			return []string{token.Value}, nil
		},
		Record: func(ctx context.Context, r egresslink.Record) error {
			r.ID, r.JailID, r.ExecID, r.Credential = ident.New("hub"), by.JailID, by.ExecID, name
			return c.Record(ctx, by.OrgID, by.NodeID, []egresslink.Record{r})
		},
	}
}
