package egress_test

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/egress"
)

func TestAnAddressOfTheNodeItselfIsTheOperatorsToGive(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, false, hello)
	named := rules(t, "api.test:"+o.port, "127.0.0.0/8:"+o.port, "169.254.169.254", "[::1]:"+o.port)
	for _, given := range [][]netip.Prefix{{}, {netip.MustParsePrefix("127.0.0.2/32"), netip.MustParsePrefix("::1/128")}} {
		r := newRig(t, egress.Config{Special: given}, named)
		r.names.set("api.test", "127.0.0.1")
		for _, url := range []string{"http://127.0.0.1:" + o.port + "/", "http://api.test:" + o.port + "/", "http://169.254.169.254/latest", "http://[::ffff:127.0.0.1]:" + o.port + "/"} {
			status, body := r.get(r.client(""), url)
			assert.Equal(t, http.StatusForbidden, status, url)
			assert.Contains(t, body, "special-addresses", url)
		}
		_, err := open(t, r.hub(), jailID, "127.0.0.1", o.port, true)
		require.True(t, fault.Is(err, fault.Denied), "%v", err)
	}
	r := newRig(t, egress.Config{Special: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, named)
	status, _ := r.get(r.client(""), "http://127.0.0.1:"+o.port+"/")
	assert.Equal(t, http.StatusOK, status)
}

func TestRefusalsAreLoggedWithACount(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newRig(t, egress.Config{Log: hclog.New(&hclog.LoggerOptions{Output: &out})}, rules(t, "api.test"))
	c := r.client("")
	const all = 1000
	for range all {
		status, _ := r.get(c, "http://evil.test/")
		require.Equal(t, http.StatusForbidden, status)
	}
	r.proxy.Leave(jailID)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Less(t, len(lines), 50)
	require.Contains(t, lines[len(lines)-1], "refused more connections out of a jail: jail_id=jail_test count=980")
}
