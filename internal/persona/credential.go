package persona

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

// Credential is one of the organisation's credentials that the agent's commands use. Its
// secret is inserted on the way out; no command gets it.
type Credential struct {
	// Name is the credential's in the organisation.
	Name string
	// Repositories are the only ones that a token is made for, as OWNER/NAME, and
	// Permissions what it may do there, such as contents: write. Only for kinds whose
	// tokens can be narrowed; none for what the credential itself allows.
	Repositories []string
	Permissions  map[string]string
	// Pushes say which references a git push may change, such as
	// "refs/heads/deckhand/* create,update"; none for the default.
	Pushes []string
}

// Checkout is a Git repository that a new workspace is filled with.
type Checkout struct {
	// URL is an https URL without a password.
	URL string
	// Ref is a branch, a tag or a commit; empty for the default branch.
	Ref string
	// Credential is the name of one of the persona's credentials; empty for none.
	Credential string
	// Depth is how many commits of history there are; 0 for all.
	Depth int
}

const (
	maxCredentials = 16
	// maxRepositories bounds the repositories of one credential, and maxPushes its rules
	// for pushes.
	maxRepositories = 50
	maxPushes       = 64
	// maxRef is the longest name of a Git reference.
	maxRef = 255
)

var (
	repositoryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	permissionName = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)
	refName        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./@+-]*$`)
)

// IsRef reports whether a text may be the name of a branch, a tag or a commit of Git.
func IsRef(text string) bool {
	return len(text) <= maxRef && refName.MatchString(text) && !strings.Contains(text, "..") && !strings.Contains(text, "//") && !strings.Contains(text, "@{") &&
		!strings.HasSuffix(text, "/") && !strings.HasSuffix(text, ".lock") && !strings.HasSuffix(text, ".")
}

// permissionLevels are the rights that a permission may give.
var permissionLevels = []string{"read", "write", "admin"}

// CredentialOf returns a credential of the persona by name, or nil.
func (p *Persona) CredentialOf(name string) *Credential {
	for i := range p.Credentials {
		if p.Credentials[i].Name == name {
			return &p.Credentials[i]
		}
	}
	return nil
}

// credentials reads the credentials: names, or mappings with what a name cannot say.
func (d *decoder) credentials(n *yaml.Node) (out []Credential) {
	const key = "credentials"
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxCredentials {
		d.problems.add(n.Line, "%s must be a list of at most %d credentials, such as [github, {name: api, permissions: {contents: read}}]", key, maxCredentials)
		return nil
	}
	for _, item := range n.Content {
		var c Credential
		if item.Kind == yaml.MappingNode {
			met := d.mapping(item, key, []field{
				{"name", func(n *yaml.Node) { c.Name = d.credentialName(n, key+".name") }},
				{"repositories", func(n *yaml.Node) {
					c.Repositories = d.list(n, key+".repositories", maxRepositories, func(n *yaml.Node, value string) {
						if !repositoryName.MatchString(value) || strings.HasSuffix(value, "/.") || strings.HasSuffix(value, "/..") {
							d.problems.add(n.Line, "%s.repositories has %s: write OWNER/NAME, such as acme/web", key, quote(value))
						}
					})
				}},
				{"permissions", func(n *yaml.Node) { c.Permissions = d.permissions(n, key+".permissions") }},
				{"push", func(n *yaml.Node) {
					var rules gitpush.Rules
					c.Pushes = d.list(n, key+".push", maxPushes, func(n *yaml.Node, value string) {
						rule, err := gitpush.ParseRule(value)
						if err == nil {
							err = append(slices.Clone(rules), rule).Check()
						}
						if err != nil {
							d.problems.add(n.Line, "%s.push: %s", key, err)
							return
						}
						rules = append(rules, rule)
					})
				}},
			})
			d.require(item, met, map[string]string{"name": "name: and the name of a credential, as `deckhand credential list` shows it"})
		} else {
			c.Name = d.credentialName(item, key)
		}
		if c.Name == "" {
			continue
		}
		if slices.ContainsFunc(out, func(other Credential) bool { return other.Name == c.Name }) {
			d.problems.add(item.Line, "%s has %s twice: keep one", key, quote(c.Name))
			continue
		}
		out = append(out, c)
	}
	return out
}

// credentialName reads the name of a credential, which has the form of an agent's.
func (d *decoder) credentialName(n *yaml.Node, key string) string {
	name := d.text(n, key, 63)
	if name != "" && !agentName.MatchString(name) {
		d.problems.add(n.Line, "%s is %s: use a credential's name as `deckhand credential list` shows it", key, quote(name))
		return ""
	}
	return name
}

// permissions reads rights by the names of what they are for.
func (d *decoder) permissions(n *yaml.Node, key string) map[string]string {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 || len(n.Content) > 2*64 {
		d.problems.add(n.Line, "%s must be 1 to 64 names and rights, such as {contents: write, pull_requests: write}", key)
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := d.text(n.Content[i], key, 64)
		if name == "" {
			continue
		}
		_, twice := out[name]
		switch {
		case !permissionName.MatchString(name):
			d.problems.add(n.Content[i].Line, "%s has %s, which is no name of a permission: use lower-case letters and _, such as pull_requests", key, quote(name))
		case twice:
			d.problems.add(n.Content[i].Line, "%s.%s is given twice: keep one", key, name)
		default:
			out[name] = d.choice(n.Content[i+1], key+"."+name, permissionLevels)
		}
	}
	return out
}

// checkout reads the repository of a new workspace.
func (d *decoder) checkout(n *yaml.Node) *Checkout {
	const key = "workspace.git"
	c := &Checkout{}
	met := d.mapping(n, key, []field{
		{"url", func(n *yaml.Node) {
			c.URL = d.text(n, key+".url", 2048)
			u, err := url.Parse(c.URL)
			if c.URL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "") {
				d.problems.add(n.Line, "%s.url is %s: write the https address of a repository without a password, such as https://github.com/acme/web.git", key, quote(c.URL))
			}
		}},
		{"ref", func(n *yaml.Node) {
			c.Ref = d.text(n, key+".ref", maxRef)
			if c.Ref != "" && !IsRef(c.Ref) {
				d.problems.add(n.Line, "%s.ref is %s: write a branch, a tag or a commit, such as main", key, quote(c.Ref))
			}
		}},
		{"credential", func(n *yaml.Node) {
			c.Credential = d.credentialName(n, key+".credential")
			d.checkedOut = n
		}},
		{"depth", func(n *yaml.Node) { c.Depth = int(d.integer(n, key+".depth", 1, 1_000_000)) }},
	})
	if n.Kind == yaml.MappingNode {
		d.require(n, met, map[string]string{"url": "url: and the https address of a repository, such as https://github.com/acme/web.git"})
	}
	return c
}

// usedCredentials reports names of credentials that the persona does not list.
func (d *decoder) usedCredentials(p *Persona) {
	if c := p.Workspace.Git; c != nil && c.Credential != "" && p.CredentialOf(c.Credential) == nil {
		d.problems.add(d.checkedOut.Line, "workspace.git.credential is %s, which credentials does not list: add it there, or remove it here", quote(c.Credential))
	}
}
