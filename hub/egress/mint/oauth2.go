package mint

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// OAuth2Client is a client of an OAuth 2.0 server that gets tokens for itself (RFC 6749,
// section 4.4), or with a refresh token for the person who has consented (section 6).
type OAuth2Client struct {
	TokenURL, ID, Secret string
	// RefreshToken is empty for tokens of the client itself.
	RefreshToken string
	Scopes       []string
	// Audience is sent if it is not empty, for servers that want it.
	Audience string
}

// Token returns an access token.
func (c OAuth2Client) Token(ctx context.Context, client *http.Client) (Token, error) {
	cfg := clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: c.TokenURL, Scopes: c.Scopes}
	if c.Audience != "" {
		cfg.EndpointParams = url.Values{"audience": {c.Audience}}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	var issued *oauth2.Token
	var err error
	if c.RefreshToken == "" {
		issued, err = cfg.Token(ctx)
	} else {
		consented := oauth2.Config{ClientID: c.ID, ClientSecret: c.Secret, Endpoint: oauth2.Endpoint{TokenURL: c.TokenURL}}
		issued, err = consented.TokenSource(ctx, &oauth2.Token{RefreshToken: c.RefreshToken}).Token()
	}
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response != nil:
		return Token{}, c.refused(refused)
	case err != nil && strings.HasPrefix(err.Error(), "oauth2:"):
		// The response was read and does not follow the protocol.
		return Token{}, unusable(c.TokenURL, http.StatusOK, strings.TrimPrefix(err.Error(), "oauth2: "))
	case err != nil:
		return Token{}, Unreachable(c.TokenURL, err)
	case !printable(issued.AccessToken):
		return Token{}, unusable(c.TokenURL, http.StatusOK, "the response has no token")
	case issued.Type() != "Bearer":
		return Token{}, fault.New(fault.Precondition, "%s issues a token of the type %.40q", c.TokenURL, Said(issued.TokenType)).WithCode(fault.CredentialRefused).
			WithFix("have the server issue bearer tokens to client %s", c.ID)
	}
	token := Token{Value: issued.AccessToken, ExpiresAt: issued.Expiry}
	if c.RefreshToken != "" && subtle.ConstantTimeCompare([]byte(issued.RefreshToken), []byte(c.RefreshToken)) == 0 {
		token.Refresh = issued.RefreshToken
	}
	return token, nil
}

func (c OAuth2Client) refused(err *oauth2.RetrieveError) error {
	status := err.Response.StatusCode
	if err := limited(c.TokenURL, status, err.Response.Header); err != nil {
		return err
	}
	text := strings.TrimSpace(err.ErrorCode + " " + err.ErrorDescription)
	if text == "" {
		text = string(err.Body)
	}
	if status < http.StatusBadRequest || status >= http.StatusInternalServerError {
		return unusable(c.TokenURL, status, text)
	}
	return fault.New(fault.Denied, "%s issues no token to client %s (HTTP %d): %s", c.TokenURL, c.ID, status, orNothing(Said(text))).WithCode(fault.CredentialRefused).
		WithFix("check the client's id, scopes and audience, and store its secret again: deckhand credential rotate NAME")
}
