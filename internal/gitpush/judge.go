package gitpush

import (
	"context"
	"errors"
	"fmt"
)

// Judge decides pushes.
type Judge struct {
	Rules  Rules
	Limits Limits
	// Spool creates an empty spool for a pack.
	Spool func() (Spool, error)
	// Commit returns a commit object by its hash in hex, without the header that git
	// stores before it, or nil if it cannot be had. It serves to prove fast-forwards
	// over commits that the server has already and that are therefore not in the
	// pack. The hash of what it returns is checked, so the source need not be
	// trusted. It may be nil.
	Commit func(ctx context.Context, hash string) ([]byte, error)
}

// Refusal says why an update is refused. The reason is one line of UTF-8.
type Refusal struct {
	Ref, Reason string
}

// Judge returns the updates that are refused, in the order of the push. If there are
// none, the push may be forwarded. If there is one, nothing may be forwarded: to leave
// single updates out would change what the client signed.
//
// The error is an *Error if the pack is damaged, for which Fail is the response.
func (j *Judge) Judge(ctx context.Context, p *Push) ([]Refusal, error) {
	var out []Refusal
	var open []Update
	for _, u := range p.Updates {
		if j.Rules.NeedsProof(u) {
			open = append(open, u)
		} else if ok, reason := j.Rules.Decide(u, false); !ok {
			out = append(out, Refusal{u.Ref, reason})
		}
	}
	if len(out) > 0 || len(open) == 0 {
		return out, nil
	}
	if err := j.Inspect(ctx, p); err != nil {
		return nil, err
	}
	fetches := j.Limits.complete().Fetches
	for _, u := range open {
		ancestor, err := j.prove(ctx, p, u, &fetches)
		if err != nil {
			return nil, err
		}
		if ok, reason := j.Rules.Decide(u, ancestor); !ok {
			out = append(out, Refusal{u.Ref, reason})
		}
	}
	return out, nil
}

// Inspect reads the pack of a push into a spool, and verifies that it is complete.
// Judge does so where it must; further calls do nothing.
func (j *Judge) Inspect(ctx context.Context, p *Push) error {
	if p.log != nil || !p.HasPack() {
		return nil
	}
	spool, err := j.Spool()
	if err != nil {
		return fmt.Errorf("create a spool for the pack: %w", err)
	}
	p.spool = spool
	if p.log, err = readPack(ctx, p.pack, spool, p.Format, j.Limits); err != nil {
		return err
	}
	p.spooled = p.log.size
	return nil
}

var errNoMoreFetches = errors.New("too many commits were fetched")

// prove reports whether an update is proven to be a fast-forward.
func (j *Judge) prove(ctx context.Context, p *Push, u Update, fetches *int) (bool, error) {
	old, _ := p.Format.parse(u.Old)
	tip, _ := p.Format.parse(u.New)
	var missing func(oid) error
	if j.Commit != nil {
		missing = func(id oid) error {
			if *fetches--; *fetches < 0 {
				return errNoMoreFetches
			}
			object, err := j.Commit(ctx, p.Format.text(id))
			if err != nil {
				return fmt.Errorf("fetch commit %s for a proof: %w", p.Format.text(id), err)
			}
			if object != nil && p.Format.commit(object) == id {
				_, _ = p.log.graph.add(object) // one that is not valid is no proof
			}
			return nil
		}
	}
	// What the push itself proves is looked at before anything is fetched.
	if ok, _ := p.log.graph.walk(old, tip, nil); ok || missing == nil {
		return ok, nil
	}
	ok, err := p.log.graph.walk(old, tip, missing)
	if errors.Is(err, errNoMoreFetches) {
		return false, nil
	}
	return ok, err
}
