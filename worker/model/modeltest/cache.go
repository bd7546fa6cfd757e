package modeltest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
)

// Prompt is what a provider reads of a request, in the order in which it caches it.
type Prompt struct {
	// Parts are the tools, the system prompt and the content blocks of the messages, as the
	// bytes that were sent, without the marks.
	Parts []string
	// Marks are the indexes of the parts that a cache breakpoint is set on.
	Marks []int
	// Automatic reports that the provider caches by itself, in a format without marks; there
	// is one on the last part then.
	Automatic bool
}

var mark = regexp.MustCompile(`,"cache_control":\{[^{}]*\}|"cache_control":\{[^{}]*\},`)

// PromptOf reads a request's prompt.
func PromptOf(f Format, body []byte) (Prompt, error) {
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return Prompt{}, fmt.Errorf("read a request: %w", err)
	}
	var p Prompt
	add := func(role string, raw json.RawMessage) {
		without := mark.ReplaceAll(raw, nil)
		if len(without) != len(raw) {
			p.Marks = append(p.Marks, len(p.Parts))
		}
		p.Parts = append(p.Parts, role+string(without))
	}
	// each adds the items of a list, or the one thing that is no list.
	each := func(role string, raw json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			list = []json.RawMessage{raw}
		}
		for _, item := range list {
			if len(item) > 0 {
				add(role, item)
			}
		}
	}
	each("tools ", request["tools"])
	messages, content := "messages", "content"
	switch f {
	case Messages:
		each("system ", request["system"])
	case Responses:
		each("system ", request["instructions"])
		messages = "input"
	case Gemini:
		each("system ", request["systemInstruction"])
		messages, content = "contents", "parts"
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(request[messages], &list); err != nil {
		return Prompt{}, fmt.Errorf("read the messages of a request: %w", err)
	}
	for _, message := range list {
		role := string(message["role"]) + " "
		if f == Messages || f == Gemini {
			each(role, message[content])
			continue
		}
		whole, err := json.Marshal(message) // items have no parts that grow
		if err != nil {
			return Prompt{}, fmt.Errorf("read a message of a request: %w", err)
		}
		add(role, whole)
	}
	if f != Messages {
		p.Marks, p.Automatic = []int{len(p.Parts) - 1}, true
	}
	return p, nil
}

// lookBack is the number of blocks, counted from a mark, in which a provider looks for
// what it has cached.
const lookBack = 20

// Cache is the prompt cache of a provider: it keeps the prompt up to each mark, and reads
// the longest one that ends at most 20 blocks before a mark of a later request; an
// automatic one keeps every prefix.
// https://platform.claude.com/docs/en/build-with-claude/prompt-caching
type Cache struct {
	mu sync.Mutex
	// written are the prefixes that were cached, and seen all prefixes that were sent.
	written, seen map[[32]byte]bool
}

// Use is what a request uses of the cache, in tokens of four bytes.
type Use struct {
	// Read is what was read, Written what was cached, and Rest what was neither.
	Read, Written, Rest int64
	// Possible is what could have been read had every prefix been cached.
	Possible int64
}

// Ask takes a request's prompt.
func (c *Cache) Ask(p Prompt) Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written, c.seen = map[[32]byte]bool{}, map[[32]byte]bool{}
	}
	prefixes, sizes := make([][32]byte, len(p.Parts)), make([]int64, len(p.Parts))
	running, size := sha256.New(), int64(0)
	for i, part := range p.Parts {
		running.Write([]byte(part + "\x00"))
		size += int64(len(part))
		prefixes[i], sizes[i] = [32]byte(running.Sum(nil)), size/4
	}
	var use Use
	for i, prefix := range prefixes {
		if c.seen[prefix] {
			use.Possible = sizes[i]
		}
	}
	back := lookBack
	if p.Automatic {
		back = len(p.Parts)
	}
	last := int64(0)
	for _, m := range p.Marks {
		last = max(last, sizes[m])
		for i := max(0, m-back+1); i <= m; i++ {
			if c.written[prefixes[i]] || p.Automatic && c.seen[prefixes[i]] {
				use.Read = max(use.Read, sizes[i])
			}
		}
	}
	use.Written, use.Rest = last-use.Read, sizes[len(sizes)-1]-last
	for _, m := range p.Marks {
		c.written[prefixes[m]] = true
	}
	for _, prefix := range prefixes {
		c.seen[prefix] = true
	}
	return use
}
