package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

// Pushes of git with a credential are judged by its binding before anything of them is sent
// on. What they change is read from the request; whether an update is a fast-forward is
// proven by the commits in the pack, which waits in a file until it is. The commits that the
// server has already are not asked of it: an update to a commit that was pushed before, under
// another name, counts as forced.
//
// A server's API may change references too: rules by method and path decide that.

const (
	// maxPushing and maxAllPushing are how many pushes of a jail, and of all, are judged at
	// once; others wait.
	maxPushing    = 2
	maxAllPushing = 8
	// maxSpooled and maxAllSpooled bound the packs of a jail's pushes, and of all, that are
	// kept while they are judged and sent on; in bytes.
	maxSpooled    = 4 << 30
	maxAllSpooled = 16 << 30
)

// pushLimits bound the memory for a push that is judged to about 35 MiB.
var pushLimits = gitpush.Limits{Head: 2 << 20, Inflated: 32 << 30, Commits: 100_000, Deltas: 400_000}

// isPush reports whether a request must be judged as a push, also where only a server that
// decodes its path more than once takes it for one.
func isPush(r *http.Request) bool {
	if gitpush.Is(r) {
		return true
	}
	path := r.URL.Path
	for range 3 {
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return false
		}
		path = decoded
		if again := (&http.Request{Method: r.Method, URL: &url.URL{Path: path}}); gitpush.Is(again) {
			return true
		}
	}
	return false
}

// judgePush judges a push with a credential, and makes what was judged the request's body.
// It returns false if the push is refused, and has responded then.
func (f *forwarded) judgePush(w http.ResponseWriter, r *http.Request) bool {
	done, err := f.j.startPush(r.Context())
	if err != nil {
		f.refusePush(r, []string{err.Error()})
		say(w, http.StatusServiceUnavailable, err.Error())
		return false
	}
	defer done()
	if err := f.hold.take(pushMemory); err != nil {
		f.refusePush(r, []string{holdText(err)})
		say(w, http.StatusServiceUnavailable, holdText(err))
		return false
	}
	push, err := gitpush.ReadRequest(r, pushLimits)
	if err != nil {
		f.refusePush(r, []string{err.Error()})
		_ = gitpush.Fail(w, nil, err, pushLimits) // what fails is the command's connection
		return false
	}
	judge := gitpush.Judge{Rules: f.binding.pushes, Limits: pushLimits, Spool: f.j.newSpool}
	refusals, err := judge.Judge(r.Context(), push)
	if err == nil && len(refusals) == 0 {
		if err = push.Forward(r); err == nil {
			f.hold.keep(int64(len(push.Head))) // until it is sent
			return true
		}
	}
	if err != nil {
		f.refusePush(r, []string{err.Error()})
		err = gitpush.Fail(w, push, err, pushLimits)
	} else {
		var why []string
		for _, refusal := range refusals {
			why = append(why, fmt.Sprintf("%s: %s", refusal.Ref, refusal.Reason))
		}
		f.refusePush(r, why)
		err = gitpush.Refuse(w, push, refusals, pushLimits)
	}
	_ = errors.Join(err, push.Close()) // what fails is the command's connection
	return false
}

// maxToldRefs is how many references of a refused push are named to the agent.
const maxToldRefs = 5

// refusePush records why a push is not sent on.
func (f *forwarded) refusePush(r *http.Request, why []string) {
	if len(why) > maxToldRefs {
		why = append(why[:maxToldRefs:maxToldRefs], fmt.Sprintf("and %d more", len(why)-maxToldRefs))
	}
	text := "the push is refused: " + strings.Join(why, "; ")
	f.out.fail(text)
	f.note(r.Method, text)
}

// startPush waits until a push may be judged.
func (j *jail) startPush(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, j.p.cfg.Patience)
	defer cancel()
	for i, slots := range []chan struct{}{j.pushing, j.p.pushing} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-j.pushing
			}
			return nil, errors.New("too many pushes are being checked on this node; try again in a moment")
		}
	}
	return func() { <-j.p.pushing; <-j.pushing }, nil
}

// boundedSpool is a spool whose bytes are counted for its jail and for all.
type boundedSpool struct {
	gitpush.Spool

	spaces spaces
	once   sync.Once
	n      int64 // written; by one goroutine, before Close
}

func (j *jail) newSpool() (gitpush.Spool, error) {
	file, err := gitpush.FileSpool(j.p.cfg.SpoolDir)()
	if err != nil {
		return nil, err
	}
	return &boundedSpool{Spool: file, spaces: spaces{j.spool, j.p.spool}}, nil
}

// Write implements io.Writer.
func (b *boundedSpool) Write(p []byte) (int, error) {
	if full := b.spaces.take(int64(len(p))); full != nil {
		return 0, &gitpush.Error{
			What:   fmt.Sprintf("the packs of pushes that are being checked have %d bytes already; push less at once, or try again in a moment", full.most),
			Status: http.StatusServiceUnavailable,
		}
	}
	b.n += int64(len(p))
	return b.Spool.Write(p)
}

// Close implements io.Closer.
func (b *boundedSpool) Close() (err error) {
	b.once.Do(func() {
		b.spaces.give(b.n)
		if file, ok := b.Spool.(interface{ Close() error }); ok {
			err = file.Close()
		}
	})
	return err
}
