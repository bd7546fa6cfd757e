package knowledge

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// connects reports whether the jail of a source connects to the source's host.
func connects(s db.KnowledgeSource) bool { return s.Kind == Git || s.Kind == Web }

// egressOf returns where the jail of a repository or page connects to: its host, and only to read.
// The proxy of the node ends the jail's TLS connections for it, so that it sees the requests.
func egressOf(ctx context.Context, k *Knowledge, s db.KnowledgeSource, jailID string) (*nodev1.Egress, error) {
	u, err := url.Parse(s.Url)
	if err != nil {
		return nil, fmt.Errorf("address of source %s: %w", s.ID, err)
	}
	role, err := k.cfg.Role(ctx, k.cfg.Store.Queries, s.OrgID, s.CreatedBy, "")
	if err != nil {
		return nil, fmt.Errorf("look up the role of %s: %w", s.CreatedBy, err)
	}
	if err := mayName(u, role); err != nil {
		return nil, err
	}
	rule := &nodev1.Egress_Rule{Host: u.Hostname(), Ports: []uint32{443}, Private: role == auth.Admin && !isAddress(u), Http: []string{"allow GET,HEAD /**"}}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		rule.Ports = []uint32{uint32(port)}
	}
	if s.Kind == Git {
		// A clone sends this request with a body. That of a push has another path, and is refused.
		segments := strings.Count(strings.Trim(u.Path, "/"), "/") + 1
		rule.Http = append(rule.Http, "allow POST /"+strings.Repeat("*/", segments)+"git-upload-pack")
	}
	authorities, err := k.cfg.Authorities.Of(ctx, s.OrgID, jailID, []string{rule.GetHost()})
	if err != nil {
		return nil, err
	}
	out := &nodev1.Egress{Rules: []*nodev1.Egress_Rule{rule}, Authorities: authorities}
	if s.Credential != "" {
		binding, err := k.cfg.Credential(ctx, s.OrgID, s.Credential, s.Url)
		if err != nil {
			return nil, err
		}
		out.Bindings = append(out.Bindings, binding)
	}
	return out, nil
}

// mayName refuses a host that is written as an address, which may be one of a private network, to
// everybody but administrators.
func mayName(u *url.URL, role string) error {
	if role == auth.Admin || !isAddress(u) {
		return nil
	}
	return fault.New(fault.Denied, "source.url: %s is an address, and addresses of private networks are for administrators", u.Hostname()).
		WithCode(fault.PermissionDenied).WithFix("use the name of the host, or ask an administrator")
}

func isAddress(u *url.URL) bool {
	_, err := netip.ParseAddr(u.Hostname())
	return err == nil
}
