package logs

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/logging"
)

// reader brings the lines of several sources together.
type reader struct {
	filter  *filter
	sources []source
	show    func(entry) error

	mu             sync.Mutex
	shown, skipped int
}

// entry is a line with its text.
type entry struct {
	logging.Line

	text []byte
}

// learn reads all sources once, for what lines say of the task that come after others of it,
// or stand in another source.
func (r *reader) learn(ctx context.Context) error {
	if r.filter.task == "" {
		return nil
	}
	for _, s := range r.sources {
		if !s.rereadable() {
			continue
		}
		if err := s.read(ctx, func(text []byte) bool {
			if l, err := logging.Parse(text); err == nil {
				r.filter.learn(l)
			}
			return ctx.Err() == nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// merge shows the lines that are there, in the order of their times. Each source is in
// order by itself.
func (r *reader) merge(ctx context.Context) error {
	type head struct {
		entry

		next func() (entry, bool)
	}
	var heads []*head
	failures := make([]error, len(r.sources))
	for i, s := range r.sources {
		next, stop := iter.Pull(func(yield func(entry) bool) {
			failures[i] = s.read(ctx, func(text []byte) bool {
				e, ok := r.entry(text)
				return ctx.Err() == nil && (!ok || yield(e))
			})
		})
		defer stop()
		if first, ok := next(); ok {
			heads = append(heads, &head{first, next})
		}
	}
	for len(heads) > 0 {
		at := 0
		for i := range heads {
			if heads[i].At.Before(heads[at].At) {
				at = i
			}
		}
		if err := r.print(heads[at].entry); err != nil {
			return err
		}
		next, ok := heads[at].next()
		if !ok {
			heads = slices.Delete(heads, at, at+1)
			continue
		}
		heads[at].entry = next
	}
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// follow shows new lines as they come, until ctx ends or nothing more can come.
func (r *reader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, s := range r.sources {
		all.Go(func() {
			if err := s.follow(ctx, func(text []byte) {
				if e, ok := r.entry(text); ok {
					if err := r.print(e); err != nil {
						cancel(err)
					}
				}
			}); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// entry parses a line. A line that is not a log line is counted in skipped.
func (r *reader) entry(text []byte) (entry, bool) {
	if len(text) == 0 {
		return entry{}, false
	}
	l, err := logging.Parse(text)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.skipped++
		return entry{}, false
	}
	return entry{l, slices.Clone(text)}, true
}

// print shows a line that matches.
func (r *reader) print(e entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.filter.match(e.Line) {
		return nil
	}
	r.shown++
	return r.show(e)
}
