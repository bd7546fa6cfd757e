package logdigest

import (
	"bytes"
	"strings"
)

// level is how grave a line is.
type level uint8

const (
	unknown level = iota
	debug
	info
	warning
	failure
	fatal
	levels
)

func (l level) String() string {
	return [levels]string{"-", "debug", "info", "warn", "error", "fatal"}[l]
}

var levelWords = map[string]level{
	"trace": debug, "trc": debug, "debug": debug, "dbg": debug, "verbose": debug, "dbug": debug, "debu": debug,
	"info": info, "inf": info, "notice": info, "information": info, "log": info,
	"warn": warning, "warning": warning, "wrn": warning,
	"error": failure, "err": failure, "eror": failure, "erro": failure, "severe": failure, "fail": failure,
	"fatal": fatal, "panic": fatal, "crit": fatal, "critical": fatal, "emerg": fatal, "alert": fatal, "emergency": fatal,
}

// failing are words of lines that report a failure and name no level.
var failing = []string{
	"error", "exception", "traceback", "failed", "failure", "panic", "segfault", "oom-killer", "out of memory", "killed process",
	"cannot ", "can't ", "unable to", "denied", "refused", "timed out", "timeout", "corrupt", "fatal", "abort",
}

// rank returns the level of a message: the first word at its start that names
// one, or else the level that its words imply.
func rank(text []byte) level {
	text = text[:min(len(text), looked)]
	words := 0
	for _, w := range bytes.FieldsFunc(text[:min(len(text), 160)], func(r rune) bool { return r >= 0x80 || !isWord[byte(r)] || r == '.' || r == '-' }) {
		if l, ok := levelWords[strings.ToLower(string(w))]; ok && (words < 3 || strings.ToUpper(string(w)) == string(w)) {
			return l
		}
		if words++; words > 12 {
			break
		}
	}
	lower := bytes.ToLower(text)
	for _, word := range failing {
		if says(text, lower, word) {
			return failure
		}
	}
	return unknown
}

// says reports whether a text contains word, as a word of its own or at the end
// of a name as in ValueError; not as a part of another, as in libgpg-error0,
// nor as the name of a value, as in timeout=30.
func says(text, lower []byte, word string) bool {
	for at := 0; ; {
		n := bytes.Index(lower[at:], []byte(word))
		if n < 0 {
			return false
		}
		start, end := at+n, at+n+len(word)
		at = end
		begins := start == 0 || !inName[lower[start-1]] || len(lower) == len(text) && text[start] != lower[start] && lower[start-1] >= 'a'
		ends := word[len(word)-1] == ' ' || end == len(lower) || !inName[lower[end]] && lower[end] != '='
		if begins && ends {
			return true
		}
	}
}

// inName are the bytes of names, of packages and files for example.
var inName = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-_/+", rune(c))
	}
	return t
}()

// rankLetter returns the level that klog writes as a letter before the time.
func rankLetter(before []byte) level {
	switch string(before) {
	case "I":
		return info
	case "W":
		return warning
	case "E":
		return failure
	case "F":
		return fatal
	}
	return unknown
}

// rankField returns the level that a field names, for example of JSON; numbers
// are those of bunyan and pino.
func rankField(value []byte) level {
	if l, ok := levelWords[strings.ToLower(string(value))]; ok {
		return l
	}
	switch string(value) {
	case "10", "20":
		return debug
	case "30":
		return info
	case "40":
		return warning
	case "50":
		return failure
	case "60":
		return fatal
	}
	return unknown
}
