package egress

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// Environment returns a command's environment with that by which programs find
// the proxy; what the command has of it already stays. The user name says which
// exec it is; some programs send none without a password.
func Environment(exec string, env []string) []string {
	set := map[string]bool{}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		set[name] = true
	}
	proxy := fmt.Sprintf("http://%s:x@127.0.0.1:%d", exec, allowlist.ProxyPort)
	var out []string
	for _, one := range []struct{ name, value string }{{"http_proxy", proxy}, {"https_proxy", proxy}, {"no_proxy", "localhost,127.0.0.1,::1"}} {
		for _, name := range []string{one.name, strings.ToUpper(one.name)} {
			if !set[name] {
				out = append(out, name+"="+one.value)
			}
		}
	}
	return append(out, env...)
}
