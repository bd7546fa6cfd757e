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
