package gitpush

import "cmp"

// Limits bound what one push may use. A field that is 0 has its default.
type Limits struct {
	// Head is the bytes before the pack. Default: 4 MiB.
	Head int
	// Updates is the number of references. Default: 10,000.
	Updates int
	// Pack is the bytes of a pack that is inspected. A pack that need not be
	// inspected is not limited. Default: 2 GiB.
	Pack int64
	// Inflated is the bytes that all objects of an inspected pack may have when they
	// are decompressed, which bounds the time. Default: 64 GiB.
	Inflated int64
	// Commits is the number of commits that are remembered for a proof (about 150
	// bytes each). Default: 200,000.
	Commits int
	// CommitSize is the bytes of one commit object. Default: 256 KiB.
	CommitSize int
	// Deltas is the number of deltas that are remembered because they could be
	// commits (56 bytes each). Default: 1,000,000.
	Deltas int
	// Fetches is the number of commits that Judge.Commit is asked for in one push.
	// Default: 1,000.
	Fetches int
	// Drain is the bytes of the body that are read and discarded before a refusal is
	// sent. Default: 4 GiB.
	Drain int64
}

// complete returns the limits with their defaults. What exceeds Commits, CommitSize,
// Deltas or Fetches is not an error: it is no proof.
func (l Limits) complete() Limits {
	return Limits{
		Head:       cmp.Or(l.Head, 4<<20),
		Updates:    cmp.Or(l.Updates, 10_000),
		Pack:       cmp.Or(l.Pack, 2<<30),
		Inflated:   cmp.Or(l.Inflated, 64<<30),
		Commits:    cmp.Or(l.Commits, 200_000),
		CommitSize: cmp.Or(l.CommitSize, 256<<10),
		Deltas:     cmp.Or(l.Deltas, 1_000_000),
		Fetches:    cmp.Or(l.Fetches, 1_000),
		Drain:      cmp.Or(l.Drain, 4<<30),
	}
}
