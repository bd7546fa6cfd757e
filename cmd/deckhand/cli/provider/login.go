package provider

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// loginTimeout is how long to wait for the browser.
const loginTimeout = 10 * time.Minute

// loginFlags are the flags of a login by OAuth.
type loginFlags struct {
	oauth                                   bool
	clientID, secretFile, authURL, tokenURL string
	scopes                                  []string
}

func (f *loginFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.oauth, "oauth", false, "log in with a browser instead of giving a key (gemini)")
	cmd.Flags().StringVar(&f.clientID, "client-id", "", "with --oauth: your OAuth client, of type desktop application")
	cmd.Flags().StringVar(&f.secretFile, "client-secret-file", "", "with --oauth: file that holds the client's secret; - for standard input")
	cmd.Flags().StringVar(&f.authURL, "auth-url", "", "with --oauth: where one logs in, if not at the provider's usual address")
	cmd.Flags().StringVar(&f.tokenURL, "token-url", "", "with --oauth: where tokens are issued, if not at the provider's usual address")
	cmd.Flags().StringSliceVar(&f.scopes, "scope", nil, "with --oauth: what to ask for, if not the provider's usual scopes")
}

// check refuses flags that do not go together.
func (f *loginFlags) check(cmd *cobra.Command, p provider.Provider) error {
	switch {
	case !f.oauth:
		for _, name := range []string{"client-id", "client-secret-file", "auth-url", "token-url", "scope"} {
			if cmd.Flags().Changed(name) {
				return env.Usage(cmd, "--%s goes with --oauth", name)
			}
		}
	case p.Login == nil:
		return env.Usage(cmd, "%s has no login: connect it with --key-file", p.Name)
	case cmd.Flags().Changed("key-file") || cmd.Flags().Changed("expires"):
		return env.Usage(cmd, "--oauth takes the place of --key-file and --expires")
	case f.clientID == "":
		return env.Usage(cmd, "--client-id is missing: make an OAuth client of type desktop application with the provider, and name it")
	}
	return nil
}

// logIn logs the user in with a browser (RFC 8252): the provider sends its
// code to a listener on this machine's loopback. Only the hub sees a token.
func logIn(ctx context.Context, e *env.Env, p provider.Provider, f *loginFlags) (*deckhandv1.ProviderLogin, error) {
	secret, err := env.ReadSecret(e, f.secretFile)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	conf := &oauth2.Config{
		ClientID: f.clientID, RedirectURL: "http://" + listener.Addr().String() + "/callback",
		Endpoint: oauth2.Endpoint{AuthURL: f.authURL}, Scopes: f.scopes,
	}
	if conf.Endpoint.AuthURL == "" {
		conf.Endpoint.AuthURL = p.Login.AuthURL
	}
	if len(conf.Scopes) == 0 {
		conf.Scopes = p.Login.Scopes
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	e.Notef("open this address in a browser on this machine, and allow what it asks for:\n\n%s\n",
		conf.AuthCodeURL(state, oauth2.AccessTypeOffline, oauth2.ApprovalForce, oauth2.S256ChallengeOption(verifier)))
	code, err := awaitCode(ctx, listener, state)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ProviderLogin{
		ClientId: f.clientID, ClientSecret: secret, TokenUrl: f.tokenURL, Code: code, CodeVerifier: verifier, RedirectUrl: conf.RedirectURL,
	}, nil
}

// awaitCode serves the redirect until one comes with the state that was sent.
func awaitCode(ctx context.Context, listener net.Listener, state string) (string, error) {
	type answer struct {
		code string
		err  error
	}
	answers := make(chan answer, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, req *http.Request) {
		q := req.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			// Anybody on this machine, and any page in the browser, can ask.
			http.Error(w, "This is not the login that deckhand began.", http.StatusBadRequest)
			return
		}
		got := answer{code: q.Get("code")}
		if got.code == "" {
			got.err = fmt.Errorf("the provider gave no code: %.100q", q.Get("error"))
		}
		select {
		case answers <- got:
		default: // it has one
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, "You may close this window: deckhand goes on in the terminal.")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() {
		// The browser is to see its answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	}()
	select {
	case got := <-answers:
		return got.code, got.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", fmt.Errorf("nobody logged in within %s", loginTimeout)
		}
		return "", ctx.Err()
	}
}
