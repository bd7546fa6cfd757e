// Package execlog reads and writes the log of one command: every byte that it
// wrote, in the order in which it was read.
//
// A log is two files in its own folder. "data" holds the raw bytes of all
// streams. "index" holds one fixed-size record per read: the time, the stream,
// and the range of bytes in data. Offsets into data never change.
//
// deckhand-init writes a log while the daemon reads it; they share only the
// files. Bytes are written before the record that describes them, and nothing
// is flushed, because the page cache outlives both processes. If the writer
// dies in between, the index ends early or with half a record. The reader uses
// the complete records, and returns the bytes after them with no stream and no
// time.
//
// Output that is not kept has offsets as well, and a record that marks a gap.
// Where a gap is followed by bytes, data has a hole.
//
// Times are the machine's wall clock, but never decrease within a log, so that
// the index can be bisected by time. If the clock is set back, new output gets
// the last time before that until the clock has caught up.
package execlog

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The files of a log.
const (
	DataFile  = "data"
	IndexFile = "index"
)

// Stream is where bytes were read from.
type Stream uint8

// The streams. Unknown is for bytes that no record describes.
const (
	Unknown Stream = 0
	Stdout  Stream = 1
	Stderr  Stream = 2
	PTY     Stream = 3
)

// Records that describe no bytes have these instead of a stream.
const (
	// Gap is output that is not there.
	Gap Stream = 16
	// Resize is a new size of the terminal.
	Resize Stream = 17
)

// Reason is why output is not there.
type Reason uint8

// The reasons.
const (
	DiskFull Reason = 2
)

// RecordSize is the size of one record of the index, in bytes.
const RecordSize = 32

// record tells of a run of bytes in data. On disk, little-endian:
//
//	 0  int64   time, Unix nanoseconds
//	 8  uint64  offset into data
//	16  uint32  length, at least 1; 0 of a Resize
//	20  uint8   stream
//	21  uint8   of a Gap: the reason
//	22  uint16  of a Resize: rows
//	24  uint16  of a Resize: columns
//	26  2 zero bytes
//	28  uint32  CRC-32 (IEEE) of the 28 bytes before
type record struct {
	time   int64
	offset int64
	length uint32
	stream Stream
	reason Reason
	rows   uint16
	cols   uint16
}

func (r record) end() int64 { return r.offset + int64(r.length) }

func (r record) encode(buf *[RecordSize]byte) {
	binary.LittleEndian.PutUint64(buf[0:], uint64(r.time))
	binary.LittleEndian.PutUint64(buf[8:], uint64(r.offset))
	binary.LittleEndian.PutUint32(buf[16:], r.length)
	clear(buf[20:28])
	buf[20], buf[21] = byte(r.stream), byte(r.reason)
	binary.LittleEndian.PutUint16(buf[22:], r.rows)
	binary.LittleEndian.PutUint16(buf[24:], r.cols)
	binary.LittleEndian.PutUint32(buf[28:], crc32.ChecksumIEEE(buf[:28]))
}

// decode returns the record in buf and whether it is one that a Writer wrote.
func decode(buf []byte) (record, bool) {
	r := record{
		time:   int64(binary.LittleEndian.Uint64(buf[0:])),
		offset: int64(binary.LittleEndian.Uint64(buf[8:])),
		length: binary.LittleEndian.Uint32(buf[16:]),
		stream: Stream(buf[20]),
		reason: Reason(buf[21]),
		rows:   binary.LittleEndian.Uint16(buf[22:]),
		cols:   binary.LittleEndian.Uint16(buf[24:]),
	}
	ok := binary.LittleEndian.Uint32(buf[28:]) == crc32.ChecksumIEEE(buf[:28]) &&
		r.offset >= 0 && r.end() >= r.offset && (r.length == 0) == (r.stream == Resize)
	return r, ok
}

// Chunk is a run of output that was read at once, a gap, or a new size of the
// terminal.
type Chunk struct {
	// Offset into the log.
	Offset int64
	Stream Stream
	// Time is when it was read from the command; zero for Unknown.
	Time time.Time
	// Data is valid until the next call.
	Data []byte
	// To is the first offset after a Gap that is not missing, and Reason is its
	// cause.
	To     int64
	Reason Reason
	// Rows and Cols are set for a Resize.
	Rows, Cols uint16
}
