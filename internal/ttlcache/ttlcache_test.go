package ttlcache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

// A value expires one ttl after it was added, also when it is read in between, and adding
// it again restarts its lifetime. synctest fails if the cache leaves a goroutine behind.
func TestAValueExpiresAfterItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := ttlcache.New[string, int](2, time.Minute)
		c.Add("a", 1)
		time.Sleep(time.Minute)
		got, ok := c.Get("a")
		assert.True(t, ok)
		assert.Equal(t, 1, got)
		time.Sleep(time.Nanosecond)
		got, ok = c.Get("a")
		assert.False(t, ok)
		assert.Zero(t, got)
		c.Add("a", 2)
		time.Sleep(time.Minute)
		_, ok = c.Get("a")
		assert.True(t, ok)
	})
}

// A full cache gives up the least recently used value; Remove, RemoveFunc and Purge delete.
func TestAFullCacheGivesUpTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	c := ttlcache.New[string, int](2, time.Minute)
	c.Add("a", 1)
	c.Add("b", 2)
	_, _ = c.Get("a")
	c.Add("c", 3)
	_, ok := c.Get("b")
	assert.False(t, ok)
	c.Remove("a")
	_, ok = c.Get("a")
	assert.False(t, ok)
	c.Add("b", 2)
	c.RemoveFunc(func(key string) bool { return key == "b" })
	_, ok = c.Get("b")
	assert.False(t, ok)
	_, ok = c.Get("c")
	assert.True(t, ok)
	c.Purge()
	_, ok = c.Get("c")
	assert.False(t, ok)
}
