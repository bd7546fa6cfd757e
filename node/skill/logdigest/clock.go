package logdigest

import (
	"bytes"
	"strconv"
	"time"
)

// format is one way of writing the time in a line.
type format struct {
	// find returns where in the line the time could begin; below 0 for nowhere.
	find func(line []byte) int
	// width is how many of its bytes identify the second; the rest is finer.
	width int
	parse func(text []byte, c *clock) (sec int64, ok bool)
	// zone says that an offset from UTC may follow the time.
	zone bool
}

// clock reads the times of a log's lines. All but the first line of each second
// cost a comparison.
type clock struct {
	year int // of lines that name none: the file's
	last struct {
		format *format
		text   [32]byte
		n      int
		sec    int64
	}
	misses int // lines without a time, in a row
}

// farIn is how far into a line a time is looked for.
const farIn = 256

// When returns the second of a line, in Unix time, and where in the line it is
// written.
func (c *clock) When(line []byte) (sec int64, from, to int, ok bool) {
	if f := c.last.format; f != nil {
		if sec, from, to, ok = c.try(f, line); ok {
			c.misses = 0
			return sec, from, to, true
		}
	}
	// Lines without a time are not searched for all kinds of it forever.
	if c.misses++; c.misses > 200 && c.misses%256 != 0 {
		return 0, 0, 0, false
	}
	for i := range formats {
		f := &formats[i]
		if f == c.last.format {
			continue
		}
		if sec, from, to, ok = c.try(f, line); ok {
			c.misses = 0
			return sec, from, to, true
		}
	}
	return 0, 0, 0, false
}

func (c *clock) try(f *format, line []byte) (sec int64, from, to int, ok bool) {
	from = f.find(line)
	if from < 0 || from+f.width > len(line) {
		return 0, 0, 0, false
	}
	text := line[from : from+f.width]
	if c.last.format == f && string(text) == string(c.last.text[:c.last.n]) {
		return c.last.sec, from, c.end(f, line, from), true
	}
	if sec, ok = f.parse(text, c); !ok {
		return 0, 0, 0, false
	}
	to = c.end(f, line, from)
	if f.zone {
		sec -= zoneOf(line[from+f.width : to])
	}
	c.last.format, c.last.sec = f, sec
	c.last.n = copy(c.last.text[:], text)
	return sec, from, to, true
}

// end returns where a time with its fraction and zone ends.
func (*clock) end(f *format, line []byte, from int) int {
	to := from + f.width
	if !f.zone {
		return to
	}
	for to < len(line) && to < from+f.width+20 {
		switch b := line[to]; {
		case b >= '0' && b <= '9', b == '.', b == ',', b == 'Z':
		case (b == '+' || b == '-' || b == ':') && to+1 < len(line) && isDigit(line[to+1]):
		case b == ' ' && to+5 < len(line) && (line[to+1] == '+' || line[to+1] == '-') && isDigit(line[to+2]) && isDigit(line[to+5]):
		default:
			return to
		}
		to++
	}
	return to
}

// zoneOf returns the offset from UTC at the end of a time, in seconds.
func zoneOf(rest []byte) int64 {
	at := bytes.LastIndexAny(rest, "+-")
	if at < 0 {
		return 0
	}
	digits := bytes.ReplaceAll(rest[at+1:], []byte(":"), nil)
	if len(digits) < 4 {
		return 0
	}
	h, m := digitsOf(digits[:2]), digitsOf(digits[2:4])
	if h < 0 || h > 14 || m < 0 || m > 59 {
		return 0
	}
	if rest[at] == '-' {
		return -int64(h*3600 + m*60)
	}
	return int64(h*3600 + m*60)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// digitsOf returns a number, or -1 if a byte is not a digit. A leading space is
// ignored.
func digitsOf(text []byte) int {
	n := 0
	for i, b := range text {
		switch {
		case isDigit(b):
			n = n*10 + int(b-'0')
		case b == ' ' && i == 0 && len(text) > 1:
		default:
			return -1
		}
	}
	return n
}

var months = map[string]int{
	"Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}

func unix(year, month, day, hour, minute, second int) (int64, bool) {
	if month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return 0, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Unix(), true
}

// at returns that a time begins at n.
func at(n int) func([]byte) int { return func([]byte) int { return n } }

// after returns the place behind the first of a byte.
func after(b byte) func([]byte) int {
	return func(line []byte) int {
		n := bytes.IndexByte(line[:min(len(line), farIn)], b)
		if n < 0 {
			return -1
		}
		return n + 1
	}
}

// jsonKeys are the fields that hold a line's time in JSON.
var jsonKeys = [][]byte{[]byte(`"time":`), []byte(`"ts":`), []byte(`"timestamp":`), []byte(`"@timestamp":`), []byte(`"t":`), []byte(`"@t":`)}

// inJSON returns where the value of a time's field begins.
func inJSON(line []byte) int {
	if len(line) == 0 || line[0] != '{' {
		return -1
	}
	for _, key := range jsonKeys {
		if n := bytes.Index(line, key); n >= 0 {
			n += len(key)
			for n < len(line) && (line[n] == ' ' || line[n] == '"') {
				n++
			}
			return n
		}
	}
	return -1
}

// inPair returns where the value of a time's field begins in key=value lines.
func inPair(line []byte) int {
	for _, key := range []string{"time=", "ts=", "timestamp="} {
		if n := bytes.Index(line[:min(len(line), farIn)], []byte(key)); n == 0 || n > 0 && line[n-1] == ' ' {
			n += len(key)
			if n < len(line) && line[n] == '"' {
				n++
			}
			return n
		}
	}
	return -1
}

var formats = []format{
	{find: at(0), width: 19, parse: iso, zone: true},
	{find: after('['), width: 19, parse: iso, zone: true},
	{find: inJSON, width: 19, parse: iso, zone: true},
	{find: inPair, width: 19, parse: iso, zone: true},
	{find: at(0), width: 15, parse: syslog},
	{find: after('['), width: 20, parse: accessLog, zone: true},
	{find: after('['), width: 24, parse: ansi},
	{find: at(0), width: 24, parse: ansi},
	{find: at(1), width: 13, parse: klog},
	{find: at(0), width: 13, parse: compact},
	{find: inJSON, width: 10, parse: epoch, zone: true},
	{find: inPair, width: 10, parse: epoch, zone: true},
	{find: at(0), width: 10, parse: epoch, zone: true},
	{find: after('>'), width: 15, parse: syslog},
	{find: after(' '), width: 19, parse: iso, zone: true},
	{find: after('>'), width: 21, parse: syslog5424, zone: true},
}

// iso reads 2026-11-22T01:02:03, with a space for the T and / for the - too.
func iso(t []byte, _ *clock) (int64, bool) {
	if t[13] != ':' || t[16] != ':' || (t[4] != '-' && t[4] != '/') || t[7] != t[4] || (t[10] != 'T' && t[10] != ' ' && t[10] != '_') {
		return 0, false
	}
	year := digitsOf(t[:4])
	if year < 1970 {
		return 0, false
	}
	return unix(year, digitsOf(t[5:7]), digitsOf(t[8:10]), digitsOf(t[11:13]), digitsOf(t[14:16]), digitsOf(t[17:19]))
}

// syslog5424 reads the time after the version: "1 2026-11-22T01:02:03".
func syslog5424(t []byte, c *clock) (int64, bool) {
	if t[0] != '1' || t[1] != ' ' {
		return 0, false
	}
	return iso(t[2:], c)
}

// syslog reads Nov 22 01:02:03.
func syslog(t []byte, c *clock) (int64, bool) {
	month, ok := months[string(t[:3])]
	if !ok || t[3] != ' ' || t[6] != ' ' || t[9] != ':' || t[12] != ':' {
		return 0, false
	}
	return unix(c.year, month, digitsOf(t[4:6]), digitsOf(t[7:9]), digitsOf(t[10:12]), digitsOf(t[13:15]))
}

// accessLog reads 22/Nov/2026:01:02:03.
func accessLog(t []byte, _ *clock) (int64, bool) {
	if t[2] != '/' || t[6] != '/' || t[11] != ':' || t[14] != ':' || t[17] != ':' {
		return 0, false
	}
	return unix(digitsOf(t[7:11]), months[string(t[3:6])], digitsOf(t[:2]), digitsOf(t[12:14]), digitsOf(t[15:17]), digitsOf(t[18:20]))
}

// ansi reads Sun Nov 22 01:02:03 2026.
func ansi(t []byte, c *clock) (int64, bool) {
	if t[3] != ' ' || t[19] != ' ' {
		return 0, false
	}
	year := digitsOf(t[20:24])
	if year < 1970 {
		return 0, false
	}
	dated := clock{year: year}
	_ = c
	return syslog(t[4:19], &dated)
}

// klog reads 1122 01:02:03, after the letter of the level.
func klog(t []byte, c *clock) (int64, bool) {
	if t[4] != ' ' || t[7] != ':' || t[10] != ':' {
		return 0, false
	}
	return unix(c.year, digitsOf(t[:2]), digitsOf(t[2:4]), digitsOf(t[5:7]), digitsOf(t[8:10]), digitsOf(t[11:13]))
}

// compact reads 261122 010203.
func compact(t []byte, _ *clock) (int64, bool) {
	if t[6] != ' ' {
		return 0, false
	}
	year := digitsOf(t[:2])
	if year < 0 || digitsOf(t[7:13]) < 0 || digitsOf(t[2:6]) < 0 {
		return 0, false
	}
	return unix(2000+year, digitsOf(t[2:4]), digitsOf(t[4:6]), digitsOf(t[7:9]), digitsOf(t[9:11]), digitsOf(t[11:13]))
}

// epoch reads seconds since 1970, between 2001 and 2100.
func epoch(t []byte, _ *clock) (int64, bool) {
	n, err := strconv.ParseInt(string(t), 10, 64)
	if err != nil || n < 1_000_000_000 || n > 4_102_444_800 {
		return 0, false
	}
	return n, true
}
