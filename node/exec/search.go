package exec

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/grep"
	"github.com/deckhand-sh/deckhand/node/execlog"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// searchBudget limits how many bytes of a log one call searches, and
	// searchTime how long it takes. The caller continues from where it ended.
	searchBudget   = 1 << 30
	searchTime     = 5 * time.Second
	defaultMatches = 100
	maxMatches     = 1000
	maxContext     = 20
	maxPattern     = 4 << 10
)

// SearchLog implements the service.
func (s *Service) SearchLog(ctx context.Context, req *nodev1.SearchLogRequest) (*nodev1.SearchLogResponse, error) {
	out, err := s.searchLog(ctx, req)
	if err != nil {
		return nil, s.fail("search a log", err)
	}
	return out, nil
}

func (s *Service) searchLog(ctx context.Context, req *nodev1.SearchLogRequest) (*nodev1.SearchLogResponse, error) {
	query, err := newQuery(req)
	if err != nil {
		return nil, err
	}
	release, err := s.search.Take(ctx, req.GetCaller())
	if errors.Is(err, grep.ErrBusy) {
		return nil, fault.New(fault.Exhausted, "%v", err).WithFix("wait for one to end").WithObject(req.GetExecId())
	}
	if err != nil {
		return nil, err
	}
	defer release()
	log, w, err := s.findLog(ctx, req.GetExecId())
	if err != nil {
		return nil, err
	}
	if log == nil {
		return &nodev1.SearchLogResponse{Complete: true}, nil
	}
	defer log.Close()
	query.Live = w != nil
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	if most := req.GetMaxTime().AsDuration(); most > 0 {
		query.Until = time.Now().Add(most)
	}
	find := log.Search
	if req.GetBackwards() {
		find = log.SearchBack
	}
	found, err := find(limited, query)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fault.New(fault.Exhausted, "pattern: the search came no further in %s", searchTime).
			WithFix("use a simpler expression, or search for a plain text").WithObject(req.GetExecId())
	}
	if err != nil {
		return nil, err
	}
	out := &nodev1.SearchLogResponse{NextOffset: found.Next, Complete: found.Complete}
	for _, m := range found.Matches {
		match := &nodev1.LogMatch{
			Offset: m.Offset, Length: m.Length, Stream: nodev1.LogStream(m.Stream),
			Excerpt: m.Excerpt, ExcerptOffset: m.ExcerptOffset,
		}
		if !m.Time.IsZero() {
			match.Time = timestamppb.New(m.Time)
		}
		out.Matches = append(out.Matches, match)
	}
	return out, nil
}

func newQuery(req *nodev1.SearchLogRequest) (execlog.Query, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithCode(fault.InvalidParameters).WithObject(req.GetExecId())
	}
	switch {
	case req.GetOffset() < 0 || req.GetEnd() < 0:
		return execlog.Query{}, bad("offset and end must not be negative")
	case req.GetMaxMatches() < 0 || req.GetMaxMatches() > maxMatches:
		return execlog.Query{}, bad("max_matches: %d is not from 0 to %d", req.GetMaxMatches(), maxMatches)
	case req.GetContextLines() < 0 || req.GetContextLines() > maxContext:
		return execlog.Query{}, bad("context_lines: %d is not from 0 to %d", req.GetContextLines(), maxContext)
	case len(req.GetPattern()) > maxPattern:
		return execlog.Query{}, bad("pattern: it is longer than %d bytes", maxPattern)
	}
	pattern, err := execlog.NewPattern(req.GetPattern(), req.GetRegexp(), req.GetIgnoreCase())
	if err != nil {
		return execlog.Query{}, bad("pattern: %v", err)
	}
	matches := int(req.GetMaxMatches())
	if matches == 0 {
		matches = defaultMatches
	}
	return execlog.Query{
		Pattern: pattern, Offset: req.GetOffset(), End: req.GetEnd(), Max: matches,
		Context: int(req.GetContextLines()), Budget: searchBudget,
	}, nil
}
