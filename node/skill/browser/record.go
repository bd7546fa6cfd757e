package browser

import (
	"context"
	"io"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// record writes the frames that one who watches gets, until the context ends or as much is written as
// a recording may have. The node keeps it as the output of a command: it is there when
// the browser, the jail and the hub are not any more.
//
// What a person types into a field for a secret is kept out of pictures once they give the browser
// back. From then on until that, nothing is recorded.
func (k *server) record(ctx context.Context, to io.Writer) {
	fresh, _ := k.join(ctx, recorder)
	defer k.leave(fresh)
	end := time.NewTimer(browserlink.RecordedTime)
	defer end.Stop()
	r := recording{to: to, left: browserlink.MaxRecording - browserlink.MaxShown, frames: browserlink.MaxRecorded - 1}
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			r.close(k.now(), "the recording ends here: it has the longest time that one may have")
			return
		case <-fresh:
		}
		now, picture := r.shown.next(&k.viewers)
		if now == nil {
			continue
		}
		more, err := r.add(now, picture)
		if err != nil {
			return
		}
		if !more {
			r.close(k.now(), "the recording ends here: it is as large as one may be")
			return
		}
	}
}

// recording is one that is being written.
type recording struct {
	to           io.Writer
	shown        shown
	left, frames int
	// private reports that the newest frame says that nothing is recorded.
	private bool
}

// Write implements io.Writer: it counts.
func (r *recording) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	r.left -= n
	return n, err
}

// add writes a frame, and reports whether there was room for it.
func (r *recording) add(now, picture *pictureFrame) (more bool, err error) {
	if now.private || picture != nil && picture.private {
		if r.private {
			return true, nil
		}
		now, picture = &pictureFrame{Frame: browserlink.Frame{At: now.At, Problem: "not recorded, because a person types a secret"}}, nil
		r.private = true
	} else {
		r.private = false
	}
	size := browserlink.MaxShown
	if picture != nil {
		size += len(picture.data)
	}
	if r.frames--; size > r.left || r.frames < 0 {
		return false, nil
	}
	return true, writeFrame(r, now, picture)
}

// close writes why there is no more.
func (r *recording) close(at int64, why string) {
	_ = writeFrame(r.to, &pictureFrame{Frame: browserlink.Frame{At: at, Problem: why, Ended: true}}, nil) // nobody can be told
}
