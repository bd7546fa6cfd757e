package credential

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxTyped bounds a password that is typed into pages, in bytes.
const maxTyped = 256

// typing is the method under which the use of a password is recorded.
const typing = "TYPE"

// checkTyped refuses what is not for a password that is typed into pages.
func checkTyped(in *deckhandv1.CreateCredentialRequest) error {
	if Kind(in.GetKind()) != Password {
		return nil
	}
	for field, given := range map[string]bool{
		"methods": len(in.GetMethods()) > 0, "paths": len(in.GetPaths()) > 0, "variable": in.GetVariable() != "", "roots": in.GetRoots() != "", "private": in.GetPrivate(),
	} {
		if given {
			return fault.New(fault.Invalid, "%s is not for credentials of the kind %s, which are inserted into no request", field, Password).WithFix("leave it out")
		}
	}
	return nil
}

func checkTypedValue(v *deckhandv1.CredentialValue) error {
	if len(v.GetPassword()) > maxTyped {
		return fault.New(fault.Invalid, "value.password has more than %d bytes, and is to be typed into pages", maxTyped).WithFix("use a shorter one")
	}
	return nil
}

func typedOnly(name string) error {
	return fault.New(fault.Denied, "credential %s is typed into pages by browser_type and inserted into no request", name).WithCode(fault.CredentialRefused).WithObject(name).
		WithFix("create one of another kind for requests")
}

// TypedPassword returns the password of a credential that the caller's persona lists, with the hosts
// into whose pages it may be typed, and records that it was asked for. It leaves the hub: while
// a page with it is open, it is in the memory of the task's browser.
func TypedPassword(ctx context.Context, c *Credentials, by Caller, name string) (browserlink.Secret, error) {
	u, err := c.use(ctx, by.OrgID, "", by.JailID, name)
	if err != nil {
		return browserlink.Secret{}, err
	}
	if Kind(u.row.Kind) != Password {
		return browserlink.Secret{}, fault.New(fault.Denied, "credential %s is of the kind %s, and only one of the kind %s may be typed into a page", name, u.row.Kind, Password).
			WithCode(fault.CredentialRefused).WithObject(name).WithFix("an administrator creates one: deckhand credential create NAME --kind %s", Password)
	}
	value, err := c.open(u.row.OrgID, u.row.Name, u.row.Sealed)
	if err != nil {
		return browserlink.Secret{}, fmt.Errorf("open credential %s: %w", name, err)
	}
	c.learn(u.row.OrgID, u.row.Name, secrets(value)...)
	out := browserlink.Secret{Credential: name, Value: value.GetPassword(), Hosts: slices.Clone(u.row.Hosts)}
	for _, port := range u.row.Ports {
		out.Ports = append(out.Ports, int(port))
	}
	// A call that is repeated after a crash is recorded once.
	err = c.Record(ctx, by.OrgID, by.NodeID, []egresslink.Record{{
		ID: "typed_" + by.ExecID, JailID: by.JailID, ExecID: by.ExecID, Credential: name, Method: typing, Host: strings.Join(u.row.Hosts, ","), Path: "/", Status: 200, At: time.Now(),
	}})
	if err != nil {
		return browserlink.Secret{}, fmt.Errorf("record the use of credential %s: %w", name, err)
	}
	return out, nil
}
