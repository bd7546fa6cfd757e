package mint

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// GitHubApp is a GitHub App, with what its tokens are to be for
// (https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app).
type GitHubApp struct {
	// BaseURL is that of the API, without a slash at the end.
	BaseURL string
	// ID is the app's id or its client id.
	ID  string
	Key *rsa.PrivateKey
	// Installation is the app's installation; 0 to look it up by the first repository.
	Installation int64
	// Owner has the repositories, and Repositories are their names; none for all that
	// the installation has.
	Owner        string
	Repositories []string
	// Permissions are at least one.
	Permissions map[string]string
}

const (
	// jwtAge and jwtLife are how long before and after now a JWT is valid: the clocks of
	// hub and GitHub may differ, and GitHub takes at most ten minutes.
	jwtAge  = time.Minute
	jwtLife = 9 * time.Minute
)

// ParseKey reads an RSA key from PEM, as GitHub issues it (PKCS #1) or as PKCS #8.
func ParseKey(text string) (*rsa.PrivateKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is not one key in PEM")
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("its RSA key cannot be parsed")
		}
		return key, nil
	case "PRIVATE KEY":
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("its key cannot be parsed")
		}
		if key, ok := parsed.(*rsa.PrivateKey); ok {
			return key, nil
		}
		return nil, errors.New("it is not an RSA key")
	}
	return nil, fmt.Errorf("it has a %.40q, not an RSA key", block.Type)
}

// Token returns a token of the installation for the repositories and permissions.
func (a GitHubApp) Token(ctx context.Context, client *http.Client) (Token, error) {
	signed, err := a.jwt(time.Now())
	if err != nil {
		return Token{}, err
	}
	installation := a.Installation
	if installation == 0 {
		if installation, err = a.find(ctx, client, signed); err != nil {
			return Token{}, err
		}
	}
	body := map[string]any{"permissions": a.Permissions}
	if len(a.Repositories) > 0 {
		body["repositories"] = a.Repositories
	}
	data, err := json.Marshal(body)
	if err != nil {
		return Token{}, fmt.Errorf("encode the request for a token: %w", err)
	}
	status, header, text, err := a.call(ctx, client, http.MethodPost, "/app/installations/"+strconv.FormatInt(installation, 10)+"/access_tokens", signed, data)
	if err != nil {
		return Token{}, err
	}
	if status != http.StatusCreated {
		return Token{}, a.refused(status, header, text)
	}
	var issued struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(text, &issued); err != nil || !printable(issued.Token) || issued.ExpiresAt.IsZero() {
		return Token{}, unusable("GitHub", status, "the response has no token")
	}
	return Token{Value: issued.Token, ExpiresAt: issued.ExpiresAt}, nil
}

// find returns the installation that has the first repository.
func (a GitHubApp) find(ctx context.Context, client *http.Client, signed string) (int64, error) {
	if len(a.Repositories) == 0 {
		return 0, fault.New(fault.Precondition, "the installation of GitHub App %s is not known", a.ID).WithCode(fault.CredentialRefused).
			WithFix("name repositories in the persona, or create the credential with --installation-id")
	}
	status, header, text, err := a.call(ctx, client, http.MethodGet, "/repos/"+url.PathEscape(a.Owner)+"/"+url.PathEscape(a.Repositories[0])+"/installation", signed, nil)
	switch {
	case err != nil:
		return 0, err
	case status == http.StatusNotFound:
		return 0, fault.New(fault.Denied, "GitHub App %s is not installed for %s/%s", a.ID, a.Owner, a.Repositories[0]).WithCode(fault.CredentialRefused).
			WithFix("an owner of %s installs it for the repository on GitHub", a.Owner)
	case status != http.StatusOK:
		return 0, a.refused(status, header, text)
	}
	var found struct{ ID int64 }
	if err := json.Unmarshal(text, &found); err != nil || found.ID <= 0 {
		return 0, unusable("GitHub", status, "the response has no installation")
	}
	return found.ID, nil
}

// jwt returns what the app identifies itself with.
func (a GitHubApp) jwt(now time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: a.Key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("sign for GitHub App %s: %w", a.ID, err)
	}
	signed, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: a.ID, IssuedAt: jwt.NewNumericDate(now.Add(-jwtAge)), Expiry: jwt.NewNumericDate(now.Add(jwtLife)),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign for GitHub App %s: %w", a.ID, err)
	}
	return signed, nil
}

func (a GitHubApp) call(ctx context.Context, client *http.Client, method, path, signed string, body []byte) (status int, header http.Header, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("make a request to GitHub: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+signed)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "deckhand")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, nil, Unreachable("GitHub's API at "+a.BaseURL, err)
	}
	defer res.Body.Close()
	text, err = io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return 0, nil, nil, Unreachable("GitHub's API at "+a.BaseURL, err)
	}
	return res.StatusCode, res.Header, text, nil
}

// refused returns the error for a response that is not a success.
func (a GitHubApp) refused(status int, header http.Header, text []byte) error {
	if err := limited("GitHub", status, header); err != nil {
		return err
	}
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil {
		said.Message = string(text)
	}
	why := orNothing(Said(said.Message))
	switch status {
	case http.StatusUnauthorized:
		return fault.New(fault.Denied, "GitHub refuses the key of GitHub App %s (HTTP 401): %s", a.ID, why).WithCode(fault.CredentialRefused).
			WithFix("check the app's id, generate another key on GitHub and store it: deckhand credential rotate NAME; the hub's clock must be right")
	case http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity:
		return fault.New(fault.Denied, "GitHub issues no token for %s with %s (HTTP %d): %s", a.repositories(), a.permissions(), status, why).WithCode(fault.CredentialRefused).
			WithFix("an owner of the installation grants GitHub App %s these repositories and permissions on GitHub, or the persona asks for less", a.ID)
	}
	return unusable("GitHub", status, said.Message)
}

func (a GitHubApp) repositories() string {
	if len(a.Repositories) == 0 {
		return "all repositories"
	}
	return a.Owner + "/" + strings.Join(a.Repositories, ", "+a.Owner+"/")
}

func (a GitHubApp) permissions() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Permissions)) {
		out = append(out, name+": "+a.Permissions[name])
	}
	return strings.Join(out, ", ")
}

// printable reports whether a token can be a part of a header.
func printable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
