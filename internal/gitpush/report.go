package gitpush

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// NotPushed is the reason for references that are not refused themselves.
const NotPushed = "not pushed, since another reference was refused"

// maxReason is the length of a reason in bytes.
const maxReason = 500

// Refuse writes the response to a push that is refused. Git prints the reason of each
// reference, and NotPushed for those without one.
//
// A client that asked for no report-status can be told nothing about references: it
// gets the HTTP status 403 with the reasons as text. Git itself always asks for it.
//
// Git reads no response before it has sent its request, unless the status is an
// error. So the rest of the request is read and discarded first, up to Limits.Drain;
// of a longer one the connection is closed after the response, and git may report a
// broken connection instead of the reasons.
func Refuse(w http.ResponseWriter, p *Push, refusals []Refusal, limits Limits) error {
	reasons := map[string]string{}
	for _, r := range refusals {
		reasons[r.Ref] = r.Reason
	}
	return p.report(w, "ok", reasons, NotPushed, limits)
}

// Fail writes the response to a push whose pack is refused with an error, which is
// shown if it is an *Error. To a push that could not be read at all, p is nil.
func Fail(w http.ResponseWriter, p *Push, err error, limits Limits) error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{"the push could not be checked", http.StatusBadGateway}
	}
	if p == nil {
		http.Error(w, oneLine(e.What), e.Status)
		return nil
	}
	return p.report(w, e.What, nil, e.What, limits)
}

// report writes the status of the pack and a reason for each reference.
func (p *Push) report(w http.ResponseWriter, unpack string, reasons map[string]string, otherwise string, limits Limits) error {
	if n, err := io.Copy(io.Discard, io.LimitReader(p.pack, limits.complete().Drain)); err != nil || n == limits.complete().Drain {
		w.Header().Set("Connection", "close")
	}
	var text, report bytes.Buffer
	lines := pktline.NewEncoder(&report)
	_ = lines.EncodeString("unpack " + oneLine(unpack) + "\n") // a bytes.Buffer returns no errors, and no line is too long
	for _, u := range p.Updates {
		reason, ok := reasons[u.Ref]
		if !ok {
			reason = otherwise
		}
		line := u.Ref + " " + oneLine(reason) + "\n"
		text.WriteString(line)
		_ = lines.EncodeString("ng " + line)
	}
	_ = lines.Flush()
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	if !p.Has("report-status") && !p.Has("report-status-v2") {
		http.Error(w, strings.TrimSuffix(text.String(), "\n"), http.StatusForbidden)
		return nil
	}
	w.Header().Set("Content-Type", ReportType)
	w.WriteHeader(http.StatusOK)
	if !p.Has("side-band-64k") {
		_, err := w.Write(report.Bytes())
		return err
	}
	band := sideband.NewMuxer(sideband.Sideband64k, w)
	// The muxer splits what is longer, into packets that are three bytes too long.
	for part := range slices.Chunk(report.Bytes(), 65000) {
		if _, err := band.Write(part); err != nil {
			return err
		}
	}
	return pktline.NewEncoder(w).Flush()
}

// oneLine returns a text without control characters and at most maxReason bytes long.
func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text), "\uFFFD")
	return textcut.Bytes(text, maxReason, "…")
}
