package credential

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// valueHelp says how values are given.
const valueHelp = `The value is read from a file, from standard input with --value-file -, or from a
variable of the environment with --from-env: an argument could be seen by other users.
It is what the kind has: a token, the value of a header or parameter, the secret of an
OAuth 2.0 client, the .pem file of a GitHub App, USER:PASSWORD for basic, and for
aws_sigv4 ID:SECRET, ID:SECRET:SESSION_TOKEN, or the JSON that
aws configure export-credentials prints. A password, which a browser types into pages,
is the password alone.`

// valueFlags say where a value is read from, and until when it is valid.
type valueFlags struct{ file, variable, expires string }

func (f *valueFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "value-file", "", "file that holds the value; - for standard input")
	cmd.Flags().StringVar(&f.variable, "from-env", "", "variable of the environment that holds the value")
	cmd.Flags().StringVar(&f.expires, "expires", "", "when the value expires, such as 2027-01-31 or 2027-01-31T12:00:00Z")
}

// given reports whether a value is given.
func (f *valueFlags) given() bool { return f.file != "" || f.variable != "" }

// expiry returns when the value expires; nil if that is not known.
func (f *valueFlags) expiry(cmd *cobra.Command) (*timestamppb.Timestamp, error) {
	if f.expires == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, f.expires)
	if err != nil {
		at, err = time.Parse(time.DateOnly, f.expires)
	}
	if err != nil {
		return nil, env.Usage(cmd, "--expires is %q, give a day or a time such as 2027-01-31 or 2027-01-31T12:00:00Z", f.expires)
	}
	return timestamppb.New(at), nil
}

// read returns the value of a credential of a kind, and when it expires; nil if that is not
// known.
func (f *valueFlags) read(e *env.Env, cmd *cobra.Command, kind string) (*deckhandv1.CredentialValue, *timestamppb.Timestamp, error) {
	if f.given() == (f.file != "" && f.variable != "") {
		return nil, nil, env.Usage(cmd, "give the value with --value-file FILE, --value-file - or --from-env NAME")
	}
	expires, err := f.expiry(cmd)
	if err != nil {
		return nil, nil, err
	}
	text := strings.TrimSpace(os.Getenv(f.variable))
	if f.file != "" {
		if text, err = env.ReadSecret(e, f.file); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case text == "" && f.variable != "":
		return nil, nil, env.Usage(cmd, "the variable %s is empty or not set, set it to the value", f.variable)
	case text == "":
		return nil, nil, env.Usage(cmd, "the value is empty, give the file that holds it")
	}
	v, err := parse(cmd, kind, text)
	return v, expires, err
}

// parse reads the value of a kind from text.
func parse(cmd *cobra.Command, kind, text string) (*deckhandv1.CredentialValue, error) {
	switch kind {
	case "bearer", "gitlab":
		return &deckhandv1.CredentialValue{Token: text}, nil
	case "header", "query":
		return &deckhandv1.CredentialValue{Value: text}, nil
	case "github_app":
		return &deckhandv1.CredentialValue{PrivateKey: text + "\n"}, nil
	case "oauth2_client":
		if !strings.HasPrefix(text, "{") {
			return &deckhandv1.CredentialValue{ClientSecret: text}, nil
		}
		var keys struct {
			ClientSecret string `json:"client_secret"`
			RefreshToken string `json:"refresh_token"`
		}
		if err := json.Unmarshal([]byte(text), &keys); err != nil || keys.ClientSecret == "" {
			return nil, env.Usage(cmd, "the value of oauth2_client is the client's secret, or a JSON object with client_secret and refresh_token")
		}
		return &deckhandv1.CredentialValue{ClientSecret: keys.ClientSecret, RefreshToken: keys.RefreshToken}, nil
	case "basic":
		user, password, found := strings.Cut(text, ":")
		if !found {
			return nil, env.Usage(cmd, "the value of basic is USER:PASSWORD, and it has no colon")
		}
		return &deckhandv1.CredentialValue{Username: user, Password: password}, nil
	case "password":
		return &deckhandv1.CredentialValue{Password: text}, nil
	case "aws_sigv4":
		var keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }
		if strings.HasPrefix(text, "{") {
			if err := json.Unmarshal([]byte(text), &keys); err != nil {
				return nil, env.Usage(cmd, "the value of aws_sigv4 is not the JSON that aws configure export-credentials prints")
			}
		} else {
			parts := strings.SplitN(text, ":", 3)
			if len(parts) < 2 {
				return nil, env.Usage(cmd, "the value of aws_sigv4 is ID:SECRET or ID:SECRET:SESSION_TOKEN, and it has no colon")
			}
			keys.AccessKeyID, keys.SecretAccessKey = parts[0], parts[1]
			if len(parts) == 3 {
				keys.SessionToken = parts[2]
			}
		}
		return &deckhandv1.CredentialValue{AccessKeyId: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}, nil
	}
	return nil, env.Usage(cmd, "there is no kind %q, the kinds are %s", kind, strings.Join(kinds, ", "))
}

// Kinds returns the kinds of credentials.
func Kinds() []string { return slices.Clone(kinds) }

var kinds = []string{"bearer", "basic", "header", "query", "github_app", "gitlab", "oauth2_client", "aws_sigv4", "password"}
