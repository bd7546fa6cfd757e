package credential

import (
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Kind says what a credential is and how it is inserted.
type Kind string

// The kinds.
const (
	Bearer       Kind = "bearer"
	Basic        Kind = "basic"
	Header       Kind = "header"
	Query        Kind = "query"
	GitHubApp    Kind = "github_app"
	GitLab       Kind = "gitlab"
	OAuth2Client Kind = "oauth2_client"
	AWS          Kind = "aws_sigv4"
	// Password is typed into pages by a task's browser, and inserted into no request.
	Password Kind = "password"
)

// form is what a kind takes.
type form struct {
	// settings and value name the fields that it may have, and needs those that it must.
	settings, value, needs []string
	// issued reports that nodes get tokens of it; else the value stays in the hub.
	issued bool
	// baseURL is where its API is unless its settings say otherwise, and hosts those that
	// belong to it.
	baseURL string
	hosts   []string
}

var forms = map[Kind]form{
	Bearer: {settings: []string{"api", "base_url"}, value: []string{"token"}, needs: []string{"token"}},
	Basic:  {settings: []string{"api", "base_url"}, value: []string{"username", "password"}},
	Header: {settings: []string{"header"}, value: []string{"value"}, needs: []string{"header", "value"}},
	Query:  {settings: []string{"parameter"}, value: []string{"value"}, needs: []string{"parameter", "value"}},
	GitHubApp: {
		settings: []string{"base_url", "app_id", "installation_id", "repositories", "permissions"}, value: []string{"private_key"},
		needs: []string{"app_id", "repositories", "permissions", "private_key"}, issued: true,
		baseURL: "https://api.github.com", hosts: []string{"api.github.com", "uploads.github.com", "github.com"},
	},
	GitLab: {settings: []string{"base_url"}, value: []string{"token"}, needs: []string{"token"}, baseURL: "https://gitlab.com", hosts: []string{"gitlab.com"}},
	OAuth2Client: {
		settings: []string{"token_url", "client_id", "scopes", "audience"}, value: []string{"client_secret", "refresh_token"},
		needs: []string{"token_url", "client_id", "client_secret"}, issued: true,
	},
	AWS: {
		settings: []string{"region", "service"}, value: []string{"access_key_id", "secret_access_key", "session_token"},
		needs: []string{"access_key_id", "secret_access_key"},
	},
	Password: {value: []string{"password"}, needs: []string{"password"}},
}

// Held reports whether the values of a kind stay in the hub, which inserts them.
func (k Kind) Held() bool { return !forms[k].issued }

// only refuses fields of a message that a kind does not have.
func only(m proto.Message, kind Kind, names []string) (err error) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if slices.Contains(names, string(f.Name())) {
			return true
		}
		e := fault.New(fault.Invalid, "%s is not for credentials of the kind %s", f.Name(), kind)
		if err = e.WithFix("leave it out"); len(names) > 0 {
			err = e.WithFix("leave it out; this kind has %s", strings.Join(names, ", "))
		}
		return false
	})
	return err
}

// has reports whether one of the messages has a field that is set.
func has(name string, messages ...proto.Message) bool {
	for _, m := range messages {
		r := m.ProtoReflect()
		if f := r.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil && r.Has(f) {
			return true
		}
	}
	return false
}

// settingsOf reads the settings of a row.
func settingsOf(row db.EgressCredential) (*deckhandv1.CredentialSettings, error) {
	s := &deckhandv1.CredentialSettings{}
	return s, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(row.Settings, s)
}

// seal encrypts a value for its row.
func (c *Credentials) seal(orgID, name string, v *deckhandv1.CredentialValue) ([]byte, error) {
	data, err := proto.Marshal(v)
	if err != nil {
		return nil, err
	}
	return c.cfg.Vault.Seal(data, object(orgID, name))
}

// open decrypts the value of a row.
func (c *Credentials) open(orgID, name string, sealed []byte) (*deckhandv1.CredentialValue, error) {
	data, err := c.cfg.Vault.Open(sealed, object(orgID, name))
	if err != nil {
		return nil, err
	}
	v := &deckhandv1.CredentialValue{}
	return v, proto.Unmarshal(data, v)
}

// Values returns what of a row must be masked: its value, in the forms in which it is sent,
// and the tokens that this hub has of it.
func (c *Credentials) Values(row db.SealedWithinRow) ([]string, error) {
	v, err := c.open(row.OrgID, row.ID, row.Sealed)
	if err != nil {
		return nil, err
	}
	return append(secrets(v), c.tokens.of(row.OrgID, row.ID)...), nil
}

// secrets returns the parts of a value that are secret, in the forms in which they are sent.
func secrets(v *deckhandv1.CredentialValue) []string {
	out := []string{v.GetToken(), v.GetPassword(), v.GetValue(), v.GetPrivateKey(), v.GetClientSecret(), v.GetRefreshToken(), v.GetAccessKeyId(), v.GetSecretAccessKey(), v.GetSessionToken()}
	if user := v.GetUsername(); user != "" {
		out = append(out, encodedBasic(user, v.GetPassword()))
		if v.GetPassword() == "" {
			out = append(out, user) // some servers take a key as a name
		}
	}
	if v.GetToken() != "" {
		out = append(out, encodedBasic(gitLabUser, v.GetToken()))
	}
	// What follows a scheme, as in "Token abc".
	if _, after, found := strings.Cut(v.GetValue(), " "); found {
		out = append(out, strings.TrimSpace(after))
	}
	// Programs print a key line by line.
	for line := range strings.Lines(v.GetPrivateKey()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && len(line) >= leastLine {
			out = append(out, line)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// leastLine is the length of a key's line that does not occur otherwise.
const leastLine = 24

func encodedBasic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
