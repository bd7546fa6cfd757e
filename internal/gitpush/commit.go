package gitpush

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Commit is a commit that a push adds. All of its texts are the pusher's, made UTF-8.
type Commit struct {
	// Hash is in hex.
	Hash string
	// Author has the form "Name <address>".
	Author string
	// Time is when it was committed, as the commit says.
	Time time.Time
	// Subject is the first line of its message, at most 200 bytes.
	Subject string
}

// maxText is the length of a commit's author and subject in bytes.
const maxText = 200

// Commits returns the commits that an update adds and the pack contains, newest first
// by their own dates, and whether there are more than max. It needs a pack that was
// inspected (Judge.Inspect) and must be called before Body.
func (p *Push) Commits(u Update, max int) (commits []Commit, more bool, err error) {
	if p.log == nil || u.New == "" {
		return nil, false, nil
	}
	next, seen := []loaded{}, map[oid]bool{}
	old, _ := p.Format.parse(u.Old)
	seen[old] = u.Old != ""
	add := func(id oid) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		c, ok, err := p.log.load(id)
		if ok {
			next = append(next, c)
		}
		return err
	}
	tip, _ := p.Format.parse(u.New)
	if err := add(tip); err != nil {
		return nil, false, err
	}
	for len(next) > 0 {
		if len(commits) == max {
			return commits, true, nil
		}
		newest := 0
		for i := range next {
			if next[i].Time.After(next[newest].Time) {
				newest = i
			}
		}
		c := next[newest]
		next = append(next[:newest], next[newest+1:]...)
		commits = append(commits, c.Commit)
		for _, parent := range p.log.graph.parents[c.id] {
			if err := add(parent); err != nil {
				return nil, false, err
			}
		}
	}
	return commits, false, nil
}

type loaded struct {
	Commit
	id oid
}

// load reads a commit of the pack from the spool, if it is there.
func (p *packReader) load(id oid) (loaded, bool, error) {
	offset, ok := p.at[id]
	if !ok {
		return loaded{}, false, nil
	}
	p.budget = p.limits.Inflated
	content, err := p.content(offset, p.found[offset])
	if err != nil || content == nil {
		return loaded{}, false, err
	}
	c := loaded{id: id}
	c.Hash = p.format.text(id)
	header, message, _ := bytes.Cut(content, []byte("\n\n"))
	for line := range bytes.SplitSeq(header, []byte("\n")) {
		name, value, _ := bytes.Cut(line, []byte(" "))
		switch string(name) {
		case "author":
			c.Author, _ = person(value)
		case "committer":
			_, c.Time = person(value)
		}
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(message, "\n"), []byte("\n"))
	c.Subject = text(subject)
	return c, true, nil
}

// person parses a line such as "Name <address> 1700000000 +0100".
func person(line []byte) (string, time.Time) {
	name, when, ok := bytes.Cut(line, []byte("> "))
	if !ok {
		return text(line), time.Time{}
	}
	seconds, _, _ := bytes.Cut(when, []byte(" "))
	n, err := strconv.ParseInt(string(seconds), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return text(name) + ">", time.Time{}
	}
	return text(name) + ">", time.Unix(n, 0).UTC()
}

func text(b []byte) string {
	if len(b) > maxText {
		b = b[:maxText]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
		if len(b) > 0 && b[len(b)-1] >= utf8.RuneSelf {
			b = b[:len(b)-1] // a character of which the end was cut off
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
