package rest

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// opened begins to read a stream, and refuses a request for which there is none. more reports
// whether there is a first message.
func opened[T any](h *Handler, w http.ResponseWriter, r *http.Request, stream *connect.ServerStreamForClient[T], err error) (more, ok bool) {
	if err == nil {
		more = stream.Receive()
		if err = stream.Err(); err != nil {
			_ = stream.Close() // it has failed
		}
	}
	if err != nil {
		h.refuse(w, r, err)
		return false, false
	}
	return more, true
}

// byteRange reads a header Range of one range with a beginning; others are ignored, as a
// server may do. to is -1 for the end.
func byteRange(header string) (from, to int64, ok bool) {
	spec, found := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !found || !dash {
		return 0, -1, false
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from < 0 {
		return 0, -1, false
	}
	if last == "" {
		return from, -1, true
	}
	to, err = strconv.ParseInt(last, 10, 64)
	if err != nil || to < from {
		return 0, -1, false
	}
	return from, to, true
}

// rangeWriter writes a response at the offsets of what it is a part of.
type rangeWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	to      *bytes.Buffer // instead of w
	at      int64         // the offset of the next byte
	end     int64         // where to end; 0 for no end
}

func newRangeWriter(w http.ResponseWriter, from int64) *rangeWriter {
	return &rangeWriter{w: w, control: http.NewResponseController(w), at: from}
}

func (l *rangeWriter) begin(partial bool) {
	status := http.StatusOK
	if partial {
		status = http.StatusPartialContent
	}
	l.w.WriteHeader(status)
}

// write writes a piece from an offset on, after NUL bytes for what is missing before it.
func (l *rangeWriter) write(offset int64, data []byte) error {
	if err := l.fill(offset); err != nil {
		return err
	}
	if skip := l.at - offset; skip > 0 {
		data = data[min(skip, int64(len(data))):]
	}
	return l.put(data)
}

// zeros are what gaps are filled with.
var zeros [32 << 10]byte

// fill writes NUL bytes up to an offset.
func (l *rangeWriter) fill(until int64) error {
	for l.at < until && (l.end == 0 || l.at < l.end) {
		if err := l.put(zeros[:min(until-l.at, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return nil
}

// put writes bytes, but none behind the end.
func (l *rangeWriter) put(data []byte) error {
	if l.end > 0 {
		data = data[:max(0, min(int64(len(data)), l.end-l.at))]
	}
	if len(data) == 0 {
		return nil
	}
	l.at += int64(len(data))
	if l.to != nil {
		_, err := l.to.Write(data)
		return err
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(writeWithin)) // without it, the connection's end is waited for
	if _, err := l.w.Write(data); err != nil {
		return err
	}
	return l.control.Flush()
}
