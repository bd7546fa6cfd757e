// Package ttlcache keeps a bounded number of values, each for a limited time.
//
// Cache is safe for use by many goroutines and starts none itself: it needs no Close,
// so that a cache may belong to a single request or stream. An expired value takes up
// its place until another one needs it.
package ttlcache

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Cache maps keys to values that expire.
type Cache[K comparable, V any] struct {
	ttl     time.Duration
	entries *lru.Cache[K, entry[V]]
}

type entry[V any] struct {
	value   V
	expires time.Time
}

// New creates a Cache of at most size values (at least 1), of which each expires ttl
// after it was added. When the cache is full, the least recently used value makes room.
func New[K comparable, V any](size int, ttl time.Duration) *Cache[K, V] {
	entries, err := lru.New[K, entry[V]](size)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &Cache[K, V]{ttl, entries}
}

// Get returns the value of a key, and whether there is one that has not expired.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	e, ok := c.entries.Get(key)
	if !ok || time.Now().After(e.expires) {
		var none V
		return none, false
	}
	return e.value, true
}

// Add stores the value of a key, and lets it expire one ttl from now.
func (c *Cache[K, V]) Add(key K, value V) {
	c.entries.Add(key, entry[V]{value, time.Now().Add(c.ttl)})
}

// Remove deletes the value of a key, if there is one.
func (c *Cache[K, V]) Remove(key K) { c.entries.Remove(key) }

// Purge deletes all values.
func (c *Cache[K, V]) Purge() { c.entries.Purge() }

// RemoveFunc deletes the values of the keys for which remove returns true.
func (c *Cache[K, V]) RemoveFunc(remove func(K) bool) {
	for _, key := range c.entries.Keys() {
		if remove(key) {
			c.entries.Remove(key)
		}
	}
}
