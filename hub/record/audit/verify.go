package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// verifyTime bounds a verification.
	verifyTime = 10 * time.Minute
	// maxBreaks is how many broken parts are looked for.
	maxBreaks = 20
)

// Break is a part of an organisation's chain that is not what was sealed.
type Break struct {
	// First and Last are positions; 0 for entries that have none.
	First, Last int64
	Problem     string
}

// Verification is what was verified of an organisation's chain.
type Verification struct {
	// Position is up to where entries were looked at, and LastPosition that of the last
	// one that was sealed when the verification began.
	Position, LastPosition int64
	// Entries, Heads and Proofs count what is as it was sealed.
	Entries, Heads, Proofs int64
	// Unsealed is how many new entries wait to be sealed; they were not verified.
	Unsealed int64
	Breaks   []Break
	// More reports that the log was not looked at behind the last break.
	More bool
	// Unfinished reports that the time was up.
	Unfinished bool
	// Key is the public key, in hexadecimal.
	Key string
}

// errEnough ends an export of which no more is read.
var errEnough = errors.New("no more is read")

// Verify verifies an organisation's chain from its beginning as Export writes it, as
// "deckhand audit verify" does, and continues behind what is broken with the next head. It
// looks too for entries that are in no chain. progress is called behind each head with
// the position. What it holds in memory does not depend on how long the log is; after ten
// minutes it returns what it has.
func Verify(ctx context.Context, s *store.Store, key ed25519.PrivateKey, orgID string, progress func(position, last int64)) (Verification, error) {
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	v, err := verify(limited, s, key, orgID, progress)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		v.Unfinished = true
		return v, nil
	}
	return v, err
}

func verify(ctx context.Context, s *store.Store, key ed25519.PrivateKey, orgID string, progress func(position, last int64)) (v Verification, err error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return v, fault.New(fault.Internal, "the audit's key is not an ed25519 key")
	}
	v.Key = hex.EncodeToString(public)
	last, err := s.LastAuditHead(ctx, orgID)
	if err != nil && !store.IsNotFound(err) {
		return v, fmt.Errorf("find where the chain ends: %w", err)
	}
	v.LastPosition = last.Position
	for after := int64(0); ; {
		report, err := verifyFrom(ctx, s, key, public, orgID, after, func(r auditlog.Report) {
			v.Position = r.Sealed
			progress(v.Position, max(v.LastPosition, v.Position))
		})
		v.Entries, v.Heads, v.Proofs = v.Entries+max(report.Sealed-after, 0), v.Heads+report.Heads, v.Proofs+report.Proofs
		var broken *auditlog.Broken
		if err == nil {
			break
		}
		if !errors.As(err, &broken) {
			return v, err
		}
		// Only what the next head seals is in doubt: its hash is signed.
		next, err := s.NextAuditHead(ctx, db.NextAuditHeadParams{OrgID: orgID, Position: max(broken.Sealed, broken.Position-1)})
		if store.IsNotFound(err) { // a head's own position was changed
			v.Breaks = append(v.Breaks, Break{First: broken.Sealed + 1, Last: max(v.LastPosition, broken.Position), Problem: broken.Why})
			break
		}
		if err != nil {
			return v, fmt.Errorf("find the head behind position %d: %w", broken.Position, err)
		}
		v.Breaks = append(v.Breaks, Break{First: broken.Sealed + 1, Last: next.Position, Problem: broken.Why})
		after, v.Position = next.Position, next.Position
		progress(v.Position, max(v.LastPosition, v.Position))
		if len(v.Breaks) == maxBreaks {
			v.More = next.Position < v.LastPosition
			break
		}
	}
	outside, err := s.AuditOutsideChain(ctx, orgID)
	if err != nil {
		return v, fmt.Errorf("look for entries outside of the chain: %w", err)
	}
	v.Unsealed = outside.Unsealed
	if outside.Headless > 0 {
		v.Breaks = append(v.Breaks, Break{First: v.LastPosition + 1, Last: v.LastPosition + outside.Headless, Problem: "the signed head of the last entries is missing"})
	}
	if outside.Lost > 0 {
		v.Breaks = append(v.Breaks, Break{Problem: fmt.Sprintf("entries that are in no chain and will not be sealed: %d, the first with id %d", outside.Lost, outside.FirstLost)})
	}
	return v, nil
}

// verifyFrom verifies what is behind a head.
func verifyFrom(ctx context.Context, s *store.Store, key ed25519.PrivateKey, public ed25519.PublicKey, orgID string, after int64, progress func(auditlog.Report)) (auditlog.Report, error) {
	out, in := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		in.CloseWithError(Export(ctx, s, key, orgID, after, in))
	}()
	report, err := auditlog.Follow(out, public, progress)
	out.CloseWithError(errEnough)
	<-written
	return report, err
}
