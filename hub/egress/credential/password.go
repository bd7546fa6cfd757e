package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
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

// Passwords are those of credentials that are typed into pages.
type Passwords struct{ of *Credentials }

// NewPasswords returns the passwords among some credentials.
func NewPasswords(c *Credentials) Passwords { return Passwords{c} }

// Take returns the password of a credential that the caller's persona lists, with the hosts
// into whose pages it may be typed, and records that it was asked for: without a status until
// Settle says what became of it. It leaves the hub: while a page with it is open, it is in the
// memory of the task's browser.
func (p Passwords) Take(ctx context.Context, by Caller, name string) (browserlink.Secret, error) {
	out, err := p.open(ctx, by, name)
	if err != nil {
		return out, err
	}
	// A call that is repeated after a crash is recorded once.
	err = p.of.Record(ctx, by.OrgID, by.NodeID, []egresslink.Record{{
		ID: typedID(by), JailID: by.JailID, ExecID: by.ExecID, Credential: name, Method: typing, Host: strings.Join(out.Hosts, ","), Path: "/", At: time.Now(),
	}})
	if err != nil {
		return browserlink.Secret{}, fmt.Errorf("record the use of credential %s: %w", name, err)
	}
	return out, nil
}

func typedID(by Caller) string { return "typed_" + by.ExecID }

func (p Passwords) open(ctx context.Context, by Caller, name string) (browserlink.Secret, error) {
	u, err := p.of.use(ctx, by.OrgID, "", by.JailID, name)
	if err != nil {
		return browserlink.Secret{}, err
	}
	if Kind(u.row.Kind) != Password {
		return browserlink.Secret{}, fault.New(fault.Denied, "credential %s is of the kind %s, and only one of the kind %s may be typed into a page", name, u.row.Kind, Password).
			WithCode(fault.CredentialRefused).WithObject(name).WithFix("an administrator creates one: deckhand credential create NAME --kind %s", Password)
	}
	value, err := p.of.open(u.row.OrgID, u.row.Name, u.row.Sealed)
	if err != nil {
		return browserlink.Secret{}, fmt.Errorf("open credential %s: %w", name, err)
	}
	p.of.learn(u.row.OrgID, u.row.Name, secrets(value)...)
	out := browserlink.Secret{Credential: name, Value: value.GetPassword(), Hosts: slices.Clone(u.row.Hosts)}
	for _, port := range u.row.Ports {
		out.Ports = append(out.Ports, int(port))
	}
	return out, nil
}

// Settle records what became of the password that a call asked for: with status 200 it was
// typed, with 403 it was not.
func (p Passwords) Settle(ctx context.Context, by Caller, problem string) error {
	status := int32(http.StatusOK)
	if problem != "" {
		status = http.StatusForbidden
	}
	err := p.of.cfg.Store.SettleCredentialRequest(ctx, db.SettleCredentialRequestParams{
		OrgID: by.OrgID, ID: by.NodeID + "-" + typedID(by), Status: status, Problem: bounded(p.of.cfg.Redact.Org(by.OrgID), problem, maxProblem),
	})
	if err != nil {
		return fmt.Errorf("record what became of the password of %s: %w", by.ExecID, err)
	}
	return nil
}

// Known returns the passwords that may have been typed by some tasks, the newest first, of those
// that may be used still.
func (p Passwords) Known(ctx context.Context, by Caller, tasks []string, most int32) (out []browserlink.Secret, err error) {
	names, err := p.of.cfg.Store.TypedCredentials(ctx, db.TypedCredentialsParams{OrgID: by.OrgID, Tasks: tasks, MaxRows: most})
	if err != nil {
		return nil, fmt.Errorf("look for the passwords that %s has typed: %w", tasks[0], err)
	}
	for _, name := range names {
		one, err := p.open(ctx, by, name)
		var refused *fault.Error
		if errors.As(err, &refused) && !fault.Is(err, fault.Unavailable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, browserlink.Secret{Credential: one.Credential, Value: one.Value})
	}
	return out, nil
}
