package egress

import (
	"net/http"

	"github.com/deckhand-sh/deckhand/internal/echomask"
)

// mask has the secrets of a credential masked in a response.
func mask(res *http.Response, credential string, secrets []string) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	all := make([]echomask.Secret, 0, len(secrets))
	for _, value := range secrets {
		all = append(all, echomask.Secret{Name: credential, Value: value})
	}
	_, err := echomask.New(all).Response(res)
	return err
}
