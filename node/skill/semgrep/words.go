package semgrep

import (
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// stopWords say nothing about a place.
var stopWords = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`a an and any are as at be been but by can code could did do does each for from given has have
		how i if in into is it its me my of on one or our out over place should so some such than that the their them then there
		these they this those to under up used uses using via was we were what when where which while who why will with within
		without would you your function method class implemented implementation defined definition happen happens done
		find show`) {
		out[w] = true
	}
	return out
}()

// kin are words that programmers use as synonyms. A synonym of a word of the
// question counts less than the word.
var kin = func() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(`delete remove erase unlink drop rm del
		create make new add mk
		get fetch load read retrieve obtain
		set store save write put update assign
		start begin launch spawn run init
		stop end finish terminate kill halt close shutdown
		error err failure fail fault
		directory dir folder
		configuration config cfg settings options conf
		initialize initialise init setup
		message msg
		address addr
		string str text
		number num count
		length len size
		buffer buf
		memory mem
		allocate alloc malloc
		parameter param argument arg
		function func fn
		pointer ptr
		previous prev
		temporary temp tmp
		process proc
		maximum max
		minimum min
		index idx
		source src
		destination dest dst
		execute exec run
		command cmd
		request req
		response resp reply
		authenticate auth login
		authorize permission access
		connection conn
		context ctx
		environment env
		variable var
		value val
		attribute attr
		character char
		copy clone dup
		compare cmp equal
		convert conversion transform
		random rand
		synchronize sync
		wait block
		lock mutex
		retry again backoff
		timeout deadline expire
		random rand
		average mean
		check verify validate
		split separate
		join concat concatenate
		append add
		lookup search find
		sort order
		format print fmt
		decode parse unmarshal deserialize
		encode marshal serialize
		device dev
		interface iface
		network net
		register reg
		interrupt irq
		descriptor fd
		user uid
		group gid
		priority prio
		schedule sched
		statistics stats
		version ver
		signal sig
		information info
		calculate compute
		absolute abs
		square sqrt
		escape quote
		uppercase upper
		lowercase lower
		hash digest checksum sum
		replace substitute
		reverse invert
		kernel linux`) {
		words := strings.Fields(line)
		for _, w := range words {
			for _, other := range words {
				if other != w {
					out[w] = append(out[w], other)
				}
			}
		}
	}
	return out
}()

// term is a word of the question.
type term struct {
	word  string
	stem  string
	forms map[string]float32 // stems that stand for it, and how much they count
}

const (
	maxTerms  = 16
	kinWeight = 0.5
)

// terms returns the words of a question that say something, in the order they
// are asked.
func terms(query string) []term {
	var out []term
	add := func(word string) {
		stem := english.Stem(word, false)
		for _, have := range out {
			if have.stem == stem {
				return
			}
		}
		if len(out) == maxTerms {
			return
		}
		t := term{word: word, stem: stem, forms: map[string]float32{stem: 1}}
		for _, other := range kin[word] {
			if s := english.Stem(other, false); t.forms[s] == 0 {
				t.forms[s] = kinWeight
			}
		}
		for _, other := range kin[stem] {
			if s := english.Stem(other, false); t.forms[s] == 0 {
				t.forms[s] = kinWeight
			}
		}
		out = append(out, t)
	}
	words := subwords(query)
	for _, w := range words {
		if !stopWords[w] && len(w) > 1 {
			add(w)
		}
	}
	if len(out) == 0 {
		for _, w := range words {
			add(w)
		}
	}
	return out
}

// subwords returns a text's words in lower case, those of camelCase and
// snake_case one by one.
func subwords(text string) []string {
	var out []string
	runes := []rune(text)
	for i := 0; i < len(runes); {
		if !unicode.IsLetter(runes[i]) {
			i++
			continue
		}
		start := i
		for i++; i < len(runes) && unicode.IsLetter(runes[i]); i++ {
			low := unicode.IsLower(runes[i-1])
			if low && unicode.IsUpper(runes[i]) {
				break
			}
			if unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
				break
			}
		}
		out = append(out, strings.ToLower(string(runes[start:i])))
	}
	return out
}
