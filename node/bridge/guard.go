package bridge

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// The frames of yamux: https://github.com/hashicorp/yamux/blob/master/spec.md. A head has a
// version, a type, flags in two bytes, the id of a stream in four and a length in four,
// which for data is how much follows the head.
const (
	headSize  = 12
	typeData  = 0
	typePing  = 2
	flagStart = 1 // of a ping: a question
)

// maxPings is how often the other end may ask within pingWindow whether this one is there.
// A jail asks every askPause.
const (
	maxPings   = 64
	pingWindow = hostPatience
)

// errPings ends a Link.
var errPings = errors.New("the other end of the bridge asks too often whether this one is there")

// guard reads from a jail for the daemon. yamux starts a goroutine for each question, which
// waits until its answer can be written, for hostPatience at most: without a bound a jail
// that asks and does not read would fill the daemon's memory. Each method is called by one
// goroutine at a time.
type guard struct {
	io.ReadWriteCloser

	head  [headSize]byte
	have  int    // of head
	data  uint32 // that is left of the frame
	since time.Time
	pings int // since then
}

func (g *guard) Read(to []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(to)
	if !g.allows(to[:n]) {
		return 0, errPings
	}
	return n, err
}

// allows follows the frames in what was read, and reports whether it may be passed on.
func (g *guard) allows(read []byte) bool {
	for len(read) > 0 {
		if g.data > 0 {
			skip := min(uint64(g.data), uint64(len(read)))
			g.data -= uint32(skip) //nolint:gosec // at most data
			read = read[skip:]
			continue
		}
		n := copy(g.head[g.have:], read)
		g.have, read = g.have+n, read[n:]
		if g.have < headSize {
			return true
		}
		g.have = 0
		switch g.head[1] {
		case typeData:
			g.data = binary.BigEndian.Uint32(g.head[8:])
		case typePing:
			if binary.BigEndian.Uint16(g.head[2:])&flagStart != 0 && !g.mayAsk() {
				return false
			}
		}
	}
	return true
}

func (g *guard) mayAsk() bool {
	if now := time.Now(); now.Sub(g.since) > pingWindow {
		g.since, g.pings = now, 0
	}
	g.pings++
	return g.pings <= maxPings
}
