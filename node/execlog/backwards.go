package execlog

import (
	"context"
	"errors"
	"math"
	"slices"
)

// backBlock is how much of a log is searched at once from its end.
const backBlock = 256 << 10

// SearchBack returns the last matches of a query's range, in order. Next is where it
// stopped: the end of the range to continue with. Like Search, it returns how far it
// came if the deadline of ctx passes after some progress.
func (r *Reader) SearchBack(ctx context.Context, q Query) (Found, error) {
	end, err := r.Size()
	if err != nil {
		return Found{}, err
	}
	size := end
	if q.End > 0 {
		end = min(end, q.End)
	}
	out := Found{Next: end}
	for out.Next > q.Offset && len(out.Matches) < q.Max {
		if q.spent(end - out.Next) {
			break
		}
		from := max(q.Offset, out.Next-backBlock)
		found, err := r.block(ctx, q, from, out.Next, size)
		if errors.Is(err, context.DeadlineExceeded) && out.Next < end {
			break
		}
		if err != nil {
			return Found{}, err
		}
		if over := len(found) + len(out.Matches) - q.Max; over > 0 {
			found = found[over:]
			from = found[0].Offset
		}
		out.Matches = append(found, out.Matches...)
		out.Next = from
	}
	out.Complete = out.Next <= q.Offset
	s := search{reader: r, query: q, end: size}
	for i := range out.Matches {
		if err := s.describe(&out.Matches[i]); err != nil {
			return Found{}, err
		}
	}
	return out, nil
}

// block returns the matches that begin from one offset on and before another.
func (r *Reader) block(ctx context.Context, q Query, from, to, size int64) ([]Match, error) {
	q.Max = math.MaxInt // SearchBack takes the last ones
	s := search{reader: r, query: q, at: from, end: min(size, to+int64(q.Pattern.reach))}
	for !s.out.Complete && s.at < to {
		if err := s.window(ctx); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(s.out.Matches, func(m Match) bool { return m.Offset >= to }), nil
}
