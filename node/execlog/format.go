// Package execlog is the log of one command: every byte that it wrote, in the
// order in which it was read from it.
//
// A log is two files in a folder of its own. "data" holds the raw bytes of all
// streams. "index" holds one record of a fixed size per read: when, from which
// stream, and which bytes of data. Offsets into data are stable for ever.
//
// deckhand-init writes a log and the daemon reads it meanwhile; they share
// nothing but the files. Bytes are written before the record that tells of
// them, and nothing is flushed: the page cache outlives both processes. When
// the writer dies in between, the index ends early or in half a record. The
// reader takes what is whole, and answers the bytes beyond it with no stream
// and no time.
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

// The streams. Unknown is of bytes that no record tells of.
const (
	Unknown Stream = 0
	Stdout  Stream = 1
	Stderr  Stream = 2
	PTY     Stream = 3
)

// RecordSize is the size of one record of the index, in bytes.
const RecordSize = 32

// record tells of a run of bytes in data. On disk, little-endian:
//
//	 0  int64   time, Unix nanoseconds
//	 8  uint64  offset into data
//	16  uint32  length, at least 1
//	20  uint8   stream
//	21  7 zero bytes
//	28  uint32  CRC-32 (IEEE) of the 28 bytes before
type record struct {
	time   int64
	offset int64
	length uint32
	stream Stream
}

func (r record) end() int64 { return r.offset + int64(r.length) }

func (r record) encode(buf *[RecordSize]byte) {
	binary.LittleEndian.PutUint64(buf[0:], uint64(r.time))
	binary.LittleEndian.PutUint64(buf[8:], uint64(r.offset))
	binary.LittleEndian.PutUint32(buf[16:], r.length)
	clear(buf[20:28])
	buf[20] = byte(r.stream)
	binary.LittleEndian.PutUint32(buf[28:], crc32.ChecksumIEEE(buf[:28]))
}

// decode answers the record in buf and whether it is one that a Writer wrote.
func decode(buf []byte) (record, bool) {
	r := record{
		time:   int64(binary.LittleEndian.Uint64(buf[0:])),
		offset: int64(binary.LittleEndian.Uint64(buf[8:])),
		length: binary.LittleEndian.Uint32(buf[16:]),
		stream: Stream(buf[20]),
	}
	ok := binary.LittleEndian.Uint32(buf[28:]) == crc32.ChecksumIEEE(buf[:28]) &&
		r.offset >= 0 && r.length > 0 && r.end() > r.offset
	return r, ok
}

// Chunk is a run of output that was read at once.
type Chunk struct {
	// Offset into the log.
	Offset int64
	Stream Stream
	// Time is when it was read from the command; zero for Unknown.
	Time time.Time
	// Data is valid until the next call.
	Data []byte
}
