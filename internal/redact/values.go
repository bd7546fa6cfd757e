package redact

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/deckhand-sh/deckhand/internal/textmatch"
)

// values is a set of secrets that can grow and shrink while it is read. It is
// kept in levels, each with a matcher of its own and fewer values than the one
// before it: adding a value makes a small level, and levels of like size become
// one, so that no value is prepared more than a few times however many come.
type values struct {
	sources sync.Map       // what each has, a []string that is never changed in place
	mu      sync.Mutex     // of changes to sources, and of all that follows but found
	uses    map[string]int // how many sources have a value
	levels  []level
	found   atomic.Pointer[matchers]
}

type level struct {
	forms   map[string][]string // of each value in it
	gone    int                 // values of it that nobody uses any more
	matcher *matcher
}

// smallLevel is how many values a level may have to be made again at once when
// one of them goes. In larger ones the values that go are masked until half of
// the level has gone.
const smallLevel = 256

// now returns the matchers of what is known at this moment.
func (v *values) now() matchers {
	if m := v.found.Load(); m != nil {
		return *m
	}
	return nil
}

func (v *values) add(list []string) { v.change(list, nil) }

// change makes values known and gives back others.
func (v *values) change(more, less []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.swap(more, less)
}

func (v *values) of(source string) []string {
	list, _ := v.sources.Load(source)
	known, _ := list.([]string)
	return known
}

// has reports whether a source has all values of a list that can be known.
func (v *values) has(source string, list []string) bool {
	known := v.of(source)
	return !slices.ContainsFunc(list, func(value string) bool { return len(value) >= minLength && !slices.Contains(known, value) })
}

// learn adds to what a source has and returns what it had not.
func (v *values) learn(source string, list []string) (fresh []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := slices.Clone(v.of(source))
	for _, value := range list {
		if len(value) >= minLength && !slices.Contains(known, value) {
			known, fresh = append(known, value), append(fresh, value)
		}
	}
	if len(fresh) > 0 {
		v.sources.Store(source, known)
	}
	v.swap(fresh, nil)
	return fresh
}

// forget takes from what a source has and returns what that was; all of it for no
// list.
func (v *values) forget(source string, list []string) (gone []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(v.of(source)), func(value string) bool {
		if len(list) > 0 && !slices.Contains(list, value) {
			return false
		}
		gone = append(gone, value)
		return true
	})
	if len(left) > 0 {
		v.sources.Store(source, left)
	} else {
		v.sources.Delete(source)
	}
	v.swap(nil, gone)
	return gone
}

// swap is change under mu.
func (v *values) swap(more, less []string) {
	if len(more)+len(less) == 0 {
		return
	}
	if v.uses == nil {
		v.uses = map[string]int{}
	}
	fresh := level{forms: map[string][]string{}}
	for _, value := range more {
		if len(value) < minLength {
			continue
		}
		if v.uses[value]++; v.uses[value] > 1 {
			continue
		}
		if at := v.levelOf(value); at != nil {
			at.gone--
			continue
		}
		fresh.forms[value] = Forms(value)
	}
	for _, value := range less {
		if len(value) < minLength {
			continue
		}
		if v.uses[value]--; v.uses[value] > 0 {
			continue
		}
		delete(v.uses, value)
		v.levelOf(value).gone++
	}
	for n := len(v.levels); len(fresh.forms) > 0 && n > 0 && len(v.levels[n-1].forms) <= 2*len(fresh.forms); n-- {
		maps.Copy(fresh.forms, v.levels[n-1].forms)
		fresh.gone += v.levels[n-1].gone
		v.levels = v.levels[:n-1]
	}
	if len(fresh.forms) > 0 {
		v.levels = append(v.levels, fresh)
	}
	v.levels = slices.DeleteFunc(v.levels, func(l level) bool { return l.gone == len(l.forms) })
	found := make(matchers, len(v.levels))
	for i := range v.levels {
		l := &v.levels[i]
		if l.matcher == nil || l.gone > 0 && (len(l.forms) <= smallLevel || 2*l.gone >= len(l.forms)) {
			l.build(v.uses)
		}
		found[i] = l.matcher
	}
	v.found.Store(&found)
}

// levelOf returns the level that has a value; nil for none.
func (v *values) levelOf(value string) *level {
	for i := range v.levels {
		if _, ok := v.levels[i].forms[value]; ok {
			return &v.levels[i]
		}
	}
	return nil
}

// build makes the level's matcher, of the values that are still in use.
func (l *level) build(uses map[string]int) {
	maps.DeleteFunc(l.forms, func(value string, _ []string) bool { return uses[value] <= 0 })
	l.gone = 0
	patterns := slices.Concat(slices.Collect(maps.Values(l.forms))...)
	slices.Sort(patterns)
	l.matcher = &matcher{textmatch.New(slices.Compact(patterns), minLength, 3), len(l.forms)}
}
