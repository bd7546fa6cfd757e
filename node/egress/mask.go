package egress

import (
	"net/http"

	"github.com/deckhand-sh/deckhand/internal/echomask"
)

// mask has a secret that the server repeats masked in its response. What comes after a
// protocol switch is not searched.
func mask(res *http.Response, m *echomask.Masker) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		m.Header(res.Header)
		return nil
	}
	_, err := m.Response(res)
	return err
}

// maskerOf returns the masker of a credential's secrets.
func maskerOf(credential string, secrets []string) *echomask.Masker {
	all := make([]echomask.Secret, 0, len(secrets))
	for _, value := range secrets {
		all = append(all, echomask.Secret{Name: credential, Value: value})
	}
	return echomask.New(all)
}
