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

// failing are the words of lines that tell of a failure and name no level.
var failing = []string{
	"error", "exception", "traceback", "failed", "failure", "panic", "segfault", "oom-killer", "out of memory", "killed process",
	"cannot ", "can't ", "unable to", "denied", "refused", "timed out", "timeout", "corrupt", "fatal", "abort",
}

// rank answers the level of a message: the first word at its start that is one,
// or what its words tell.
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
		if bytes.Contains(lower, []byte(word)) {
			return failure
		}
	}
	return unknown
}

// rankLetter answers the level that klog writes as a letter before the time.
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

// rankField answers the level that a field names, for example of JSON; numbers
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
